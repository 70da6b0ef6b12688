"""A fork takes over what its ancestors replaced since: its lineage moves on to their present
publications, so far as all that it builds on is still there.
"""

from itertools import pairwise
from uuid import UUID

from durable_context.database import Connection, Pool, acquired

# The ancestors, too, or retention may take what the branch is about to see; in the order of all who
# lock several.
LOCK = """
select from durable_context.branches b where b.tenant = $1 and b.branch_uuid in (
    select l.ancestor_uuid from durable_context.lineage l
    where l.tenant = $1 and l.branch_uuid = $2
) order by b.branch_uuid for no key update
"""

_BEHIND = """
select l.depth, a.publication from durable_context.lineage l
join durable_context.branches a on a.tenant = l.tenant and a.branch_uuid = l.ancestor_uuid
where l.tenant = $1 and l.branch_uuid = $2 and l.depth > 0 and l.publication < a.publication
order by l.depth desc
"""

_MOVE = """
update durable_context.lineage set publication = $4
where tenant = $1 and branch_uuid = $2 and depth = $3
"""

_NODES = """
select s.level, s.from_turn, s.to_turn from durable_context.visible_summaries s
where s.tenant = $1 and s.seen_by = $2
"""

_BASE = """
select count(*) from durable_context.branches b
join durable_context.lineage l on l.tenant = b.tenant and l.branch_uuid = b.branch_uuid
    and l.depth = 1
where b.tenant = $1 and b.branch_uuid = $2 and (l.compacted_turn = 0 or exists (
    select from durable_context.visible_checkpoints c
    where c.tenant = b.tenant and c.seen_by = b.branch_uuid and c.turn_no = l.compacted_turn
))
"""

_PUBLISHED = """
update durable_context.branches set publication = publication + 1
where tenant = $1 and branch_uuid = $2
"""

Ranges = set[tuple[int, int, int]]


class _LeftBehind(Exception):
    """What the branch builds on is not there any more."""


async def follow(pool: Pool, tenant: str, branch_uuid: UUID) -> bool:
    """Whether the branch sees anything of its ancestors that it did not see before.

    Of an ancestor that has rejected what the branch builds on, or has merged what the branch merged
    itself, the branch goes on seeing what it saw. It counts as a publication of the branch.
    """
    moved = False
    async with acquired(pool) as connection, connection.transaction():
        await connection.execute(LOCK, tenant, branch_uuid)
        for depth, publication in await connection.fetch(_BEHIND, tenant, branch_uuid):
            moved |= await _moved(connection, tenant, branch_uuid, depth, publication)
        if moved:
            await connection.execute(_PUBLISHED, tenant, branch_uuid)
    return moved


async def _moved(
    connection: Connection, tenant: str, branch_uuid: UUID, depth: int, publication: int
) -> bool:
    try:
        async with connection.transaction():
            before = await _ranges(connection, tenant, branch_uuid)
            await connection.execute(_MOVE, tenant, branch_uuid, depth, publication)
            await _check(connection, tenant, branch_uuid, before)
    except _LeftBehind:
        return False
    return True


async def _check(connection: Connection, tenant: str, branch_uuid: UUID, before: Ranges) -> None:
    """Raises _LeftBehind unless everything is covered as before, and once."""
    after = await _ranges(connection, tenant, branch_uuid)
    if not before <= after or not await connection.fetchval(_BASE, tenant, branch_uuid):
        raise _LeftBehind


async def _ranges(connection: Connection, tenant: str, branch_uuid: UUID) -> Ranges:
    """Of the nodes that the branch sees. Raises _LeftBehind where two of a level overlap."""
    rows = sorted(tuple(row) for row in await connection.fetch(_NODES, tenant, branch_uuid))
    for (level, _, to_turn), (next_level, from_turn, _) in pairwise(rows):
        if level == next_level and from_turn <= to_turn:
            raise _LeftBehind
    return set(rows)
