"""Whole conversations: every branch of the tree, with all it has in any table, at once."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from durable_context.database import Connection
from durable_context.retention.pages import (
    Found,
    Search,
    allow_deletes,
    lock_branches,
)

PAGE: Final = 50
"""Conversations looked at, and at most deleted, at a time: each in a transaction of its own."""
SECONDS: Final = 600.0
"""Bound on deleting what one table has of a conversation."""

# When somebody last did something: recorded, forked or put.
_USED: Final = """
greatest(b.created_at, b.last_turn_at, (
    select a.created_at from durable_context.artifacts a
    where a.tenant = b.tenant and a.branch_uuid = b.branch_uuid
    order by a.artifact_no desc limit 1
))
"""
_KEPT_SINCE: Final = f"""
select u.used::text from (
    select max({_USED}) as used from durable_context.branches b where b.tenant = $1
    group by b.conversation_id
) u order by u.used desc offset $2 limit 1
"""
# By root; a conversation that has several is due once, with the first.
_FIND: Final = f"""
select array[r.branch_uuid::text, ($2::text[])[2]] as key, r.conversation_id, coalesce(
    c.first_uuid = r.branch_uuid and not c.pinned
    and (c.used < clock_timestamp() - $4::interval or c.used < ($2::text[])[2]::timestamptz), false
) as due
from (
    select r.branch_uuid, r.conversation_id from durable_context.branches r
    where r.tenant = $1 and r.parent_uuid is null and r.branch_uuid > ($2::text[])[1]::uuid
    order by r.branch_uuid limit $3
) r cross join lateral (
    select max({_USED}) as used,
        min(b.branch_uuid::text) filter (where b.parent_uuid is null)::uuid as first_uuid,
        bool_or(exists (
            select from durable_context.pins p
            where p.tenant = b.tenant and p.branch_uuid = b.branch_uuid
        )) as pinned
    from durable_context.branches b
    where b.tenant = $1 and b.conversation_id = r.conversation_id
) c
order by r.branch_uuid
"""
_BRANCHES: Final = """
select b.branch_uuid from durable_context.branches b
where b.tenant = $1 and b.conversation_id = $2
"""
_STILL_DUE: Final = f"""
select coalesce(
    max({_USED}) < clock_timestamp() - $3::interval or max({_USED}) < $4::text::timestamptz, false
) and not exists (
    select from durable_context.pins p where p.tenant = $1 and p.branch_uuid = any($2::uuid[])
)
from durable_context.branches b where b.tenant = $1 and b.branch_uuid = any($2::uuid[])
"""
_SIZE: Final = """
select coalesce(sum(bytes), 0)::bigint from (
    select pg_column_size(t.messages) as bytes from durable_context.turns t
    where t.tenant = $1 and t.branch_uuid = any($2::uuid[])
    union all
    select pg_column_size(s.headline) + pg_column_size(s.text) from durable_context.summaries s
    where s.tenant = $1 and s.branch_uuid = any($2::uuid[])
    union all
    select pg_column_size(c.text) + pg_column_size(c.sections) + pg_column_size(c.ledger)
    from durable_context.checkpoints c where c.tenant = $1 and c.branch_uuid = any($2::uuid[])
) sizes
"""
_TABLES: Final = (
    "pins",
    "events",
    "compactions",
    "summary_parts",
    "indexed_documents",
    "checkpoints",
    "summaries",
    "artifacts",
    "turns",
    "lineage",
    "branches",
)
"""In an order that foreign keys allow. Postings and vectors go before them; what others keep of a
branch goes with its row.
"""
_TAKE_POSTINGS: Final = """
delete from durable_context.postings p using durable_context.branches b
where b.tenant = $1 and b.branch_uuid = any($2::uuid[]) and p.branch_uuid = b.branch_uuid
"""
_KEEPS_VECTORS: Final = "select to_regclass('durable_context.leaf_signatures') is not null"
_TAKE_VECTORS: Final = """
delete from durable_context.leaf_signatures s
where s.tenant = $1 and s.branch_uuid = any($2::uuid[])
"""


class UnusedConversations:
    """Those without a turn for long, and those before the newest. The key holds since when the
    conversations have been in use that stay for their number.
    """

    name = "conversations"
    first: tuple[str, ...] = (str(UUID(int=0)), "")

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        policy = search.policy
        if policy.conversations_after is None and policy.conversations_kept is None:
            return []
        last, since = after
        since = since or await _kept_since(connection, search)
        rows = await connection.fetch(
            _FIND, search.tenant, [last, since], PAGE, policy.conversations_after
        )
        return [await _found(connection, search, *row) for row in rows]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[str]:
        return [found.id for found in due if await self._take_one(connection, search, found)]

    async def _take_one(self, connection: Connection, search: Search, found: Found) -> bool:
        async with connection.transaction():
            branches = await lock_conversation(connection, search.tenant, found.id)
            policy = search.policy
            still_due = await connection.fetchval(
                _STILL_DUE, search.tenant, branches, policy.conversations_after, found.key[1]
            )
            if still_due:
                await delete_branches(connection, search.tenant, branches)
        return bool(still_due)


async def branches_of_conversation(
    connection: Connection, tenant: str, conversation_id: str
) -> list[UUID]:
    rows = await connection.fetch(_BRANCHES, tenant, conversation_id)
    return [row["branch_uuid"] for row in rows]


async def lock_conversation(
    connection: Connection, tenant: str, conversation_id: str
) -> list[UUID]:
    """Its branches, forks included that were about to be made."""
    locked: list[UUID] = []
    while (branches := await branches_of_conversation(connection, tenant, conversation_id)) and len(
        branches
    ) > len(locked):
        await lock_branches(connection, tenant, branches)
        locked = branches
    return locked


async def size_of(connection: Connection, tenant: str, branches: Sequence[UUID]) -> int:
    """Bytes of turns, nodes and checkpoints, as they are stored."""
    return await connection.fetchval(_SIZE, tenant, branches)


async def delete_branches(connection: Connection, tenant: str, branches: Sequence[UUID]) -> None:
    """All they have, in the caller's transaction. They must be locked, and whole trees."""
    await allow_deletes(connection)
    statements = [_TAKE_POSTINGS]
    if await connection.fetchval(_KEEPS_VECTORS):
        statements.append(_TAKE_VECTORS)
    statements += [
        f"delete from durable_context.{table} where tenant = $1 and branch_uuid = any($2::uuid[])"
        for table in _TABLES
    ]
    for statement in statements:
        await connection.execute(statement, tenant, branches, timeout=SECONDS)


async def _kept_since(connection: Connection, search: Search) -> str:
    """Since when the last conversation that stays for its number has been in use, as text."""
    kept = search.policy.conversations_kept
    if kept is None:
        return "-infinity"
    if kept == 0:
        return "infinity"
    since = await connection.fetchval(_KEPT_SINCE, search.tenant, kept - 1)
    return since or "-infinity"


async def _found(
    connection: Connection, search: Search, key: list[str], conversation_id: str, due: bool
) -> Found:
    size = 0
    if due:
        branches = await branches_of_conversation(connection, search.tenant, conversation_id)
        size = await size_of(connection, search.tenant, branches)
    return Found(tuple(key), due, "conversations", size, conversation_id)
