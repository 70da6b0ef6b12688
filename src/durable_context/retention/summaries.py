"""Nodes that were replaced or rejected, and drafts that were never published. A node stays as long
as a fork sees it, or a checkpoint of any branch names it.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from durable_context.database import Connection
from durable_context.retention.pages import (
    BATCH,
    Found,
    Search,
    allow_deletes,
    branches_of,
    lock_branches,
)

# $7: branches that are gone by then.
_SEEN: Final = """
select from durable_context.lineage l
where l.tenant = $1 and l.ancestor_uuid = s.branch_uuid and l.depth > 0
    and l.branch_uuid <> all($7::uuid[]) and s.to_turn <= l.compacted_turn
    and s.published_in <= l.publication and s.replaced_in > l.publication
"""
_FIND: Final = f"""
select array[s.branch_uuid::text, s.summary_id::text] as key, s.summary_id as id, s.state,
    s.branch_uuid as branch, pg_column_size(s.headline) + pg_column_size(s.text) as bytes, coalesce(
        coalesce(s.replaced_at, s.created_at) < clock_timestamp() - case s.state
            when 'superseded' then $4::interval when 'rejected' then $5::interval
            else $6::interval end
        and s.branch_uuid <> all($7::uuid[]) and not exists ({_SEEN}), false
    ) as due
from (
    select * from durable_context.summaries s
    where s.tenant = $1 and s.state <> 'current'
        and (s.branch_uuid, s.summary_id) > (($2::text[])[1]::uuid, ($2::text[])[2]::uuid)
    order by s.branch_uuid, s.summary_id limit $3
) s order by s.branch_uuid, s.summary_id
"""
# $4: checkpoints that are gone by then, $5: branches.
_NAMED: Final = """
select distinct n.summary_id
from unnest($2::uuid[]) b (branch_uuid)
join durable_context.lineage l on l.tenant = $1 and l.ancestor_uuid = b.branch_uuid
    and l.branch_uuid <> all($5::uuid[])
join durable_context.checkpoints c on c.tenant = $1 and c.branch_uuid = l.branch_uuid
    and not exists (select from unnest($4::uuid[]) g (checkpoint_id)
        where g.checkpoint_id = c.checkpoint_id)
cross join unnest(c.frontier) n (summary_id)
join unnest($3::uuid[]) w (summary_id) on w.summary_id = n.summary_id
"""
_TAKE: Final = f"""
delete from durable_context.summaries s using unnest($2::uuid[], $3::text[]) d (summary_id, state)
where s.tenant = $1 and s.summary_id = d.summary_id and s.state = d.state
    and not exists ({_SEEN.replace("$7", "'{}'")})
returning s.summary_id
"""


class RetiredSummaries:
    """A checkpoint that is made meanwhile names none of them: it names what its branch sees."""

    name = "summaries"
    first: tuple[str, ...] = (str(UUID(int=0)), str(UUID(int=0)))

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        policy = search.policy
        rows = await connection.fetch(
            _FIND,
            search.tenant,
            after,
            BATCH,
            policy.superseded_after,
            policy.rejected_after,
            policy.drafts_after,
            search.branches,
        )
        found = [
            Found(
                tuple(row["key"]),
                row["due"],
                "drafts" if row["state"] == "draft" else "summaries",
                row["bytes"],
                *row[1:4],
            )
            for row in rows
        ]
        named = await _named(connection, search, [node for node in found if node.due])
        return [node._replace(due=node.due and node.id not in named) for node in found]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[UUID]:
        async with connection.transaction():
            await allow_deletes(connection)
            await lock_branches(connection, search.tenant, branches_of(due))
            ids = [found.id for found in due]
            states = [found.state for found in due]
            rows = await connection.fetch(_TAKE, search.tenant, ids, states)
        return [row["summary_id"] for row in rows]


async def _named(connection: Connection, search: Search, due: Sequence[Found]) -> set[UUID]:
    """Those that a checkpoint names which stays."""
    if not due:
        return set()
    rows = await connection.fetch(
        _NAMED,
        search.tenant,
        branches_of(due),
        [found.id for found in due],
        search.checkpoints,
        search.branches,
    )
    return {row["summary_id"] for row in rows}
