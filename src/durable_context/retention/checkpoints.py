"""Checkpoints that were replaced or rejected, and old ones beyond what a tenant keeps. One that a
fork sees as it stood stays, and so does one that a fork begins with.
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

_SIZE: Final = "pg_column_size(c.text) + pg_column_size(c.sections) + pg_column_size(c.ledger)"
# $6: branches that are gone by then.
_SEEN: Final = """
select from durable_context.lineage l
where l.tenant = $1 and l.ancestor_uuid = c.branch_uuid and l.depth > 0
    and l.branch_uuid <> all($6::uuid[]) and c.turn_no <= l.compacted_turn
    and c.published_in <= l.publication and c.replaced_in > l.publication
"""
_FIND_RETIRED: Final = f"""
select array[c.branch_uuid::text, c.checkpoint_id::text] as key, c.checkpoint_id as id, c.state,
    c.branch_uuid as branch, {_SIZE} as bytes, coalesce(
        coalesce(c.replaced_at, c.created_at) < clock_timestamp()
            - case c.state when 'superseded' then $4::interval else $5::interval end
        and c.branch_uuid <> all($6::uuid[]) and not exists ({_SEEN}), false
    ) as due
from (
    select * from durable_context.checkpoints c
    where c.tenant = $1 and c.state <> 'current'
        and (c.branch_uuid, c.checkpoint_id) > (($2::text[])[1]::uuid, ($2::text[])[2]::uuid)
    order by c.branch_uuid, c.checkpoint_id limit $3
) c order by c.branch_uuid, c.checkpoint_id
"""
_TAKE_RETIRED: Final = f"""
delete from durable_context.checkpoints c
using unnest($2::uuid[], $3::text[]) d (checkpoint_id, state)
where c.tenant = $1 and c.checkpoint_id = d.checkpoint_id and c.state = d.state
    and not exists ({_SEEN.replace("$6", "'{}'")})
returning c.checkpoint_id
"""
_BASE: Final = """
select from durable_context.lineage l
where l.tenant = $1 and l.ancestor_uuid = c.branch_uuid and l.depth > 0
    and l.branch_uuid <> all($5::uuid[]) and l.compacted_turn = c.turn_no
    and c.published_in <= l.publication
"""
_BEYOND: Final = """
c.turn_no <> b.checkpoint_turn and $4::integer <= (
    select count(*) from (
        select from durable_context.checkpoints n
        where n.branch_uuid = c.branch_uuid and n.state = 'current' and n.turn_no > c.turn_no
        limit $4
    ) newer
)
"""
_FIND_OLD: Final = f"""
select array[b.branch_uuid::text, coalesce(c.turn_no, 2147483647)::text] as key,
    c.checkpoint_id as id, b.branch_uuid as branch, coalesce({_SIZE}, 0) as bytes, coalesce(
        b.branch_uuid <> all($5::uuid[]) and {_BEYOND} and not exists ({_BASE}), false
    ) as due
from (
    select b.branch_uuid, b.checkpoint_turn from durable_context.branches b
    where b.tenant = $1 and b.branch_uuid >= ($2::text[])[1]::uuid
        and (b.branch_uuid, 2147483647) > (($2::text[])[1]::uuid, ($2::text[])[2]::integer)
    order by b.branch_uuid limit $3
) b left join lateral (
    select * from durable_context.checkpoints c
    where c.tenant = $1 and c.branch_uuid = b.branch_uuid and c.state = 'current'
        and (b.branch_uuid, c.turn_no) > (($2::text[])[1]::uuid, ($2::text[])[2]::integer)
    order by c.turn_no limit $3
) c on true
order by b.branch_uuid, c.turn_no limit $3
"""
_TAKE_OLD: Final = f"""
delete from durable_context.checkpoints c using durable_context.branches b
where c.tenant = $1 and c.checkpoint_id = any($2::uuid[]) and c.state = 'current'
    and b.tenant = $1 and b.branch_uuid = c.branch_uuid
    and {_BEYOND.replace("$4", "$3")} and not exists ({_BASE.replace("$5", "'{}'")})
returning c.checkpoint_id
"""


class RetiredCheckpoints:
    """Superseded and rejected ones."""

    name = "checkpoints"
    first: tuple[str, ...] = (str(UUID(int=0)), str(UUID(int=0)))

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        policy = search.policy
        rows = await connection.fetch(
            _FIND_RETIRED,
            search.tenant,
            after,
            BATCH,
            policy.superseded_after,
            policy.rejected_after,
            search.branches,
        )
        return [
            Found(tuple(row["key"]), row["due"], "checkpoints", row["bytes"], *row[1:4])
            for row in rows
        ]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[UUID]:
        async with connection.transaction():
            await allow_deletes(connection)
            await lock_branches(connection, search.tenant, branches_of(due))
            ids = [found.id for found in due]
            states = [found.state for found in due]
            rows = await connection.fetch(_TAKE_RETIRED, search.tenant, ids, states)
        return [row["checkpoint_id"] for row in rows]


class OldCheckpoints:
    """Those before the newest `checkpoints_kept` of their branch."""

    name = "history"
    first: tuple[str, ...] = (str(UUID(int=0)), "0")

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        kept = search.policy.checkpoints_kept
        if kept is None:
            return []
        rows = await connection.fetch(_FIND_OLD, search.tenant, after, BATCH, kept, search.branches)
        return [
            Found(
                tuple(row["key"]),
                row["due"],
                "checkpoints",
                row["bytes"],
                row["id"],
                "current",
                row["branch"],
            )
            for row in rows
        ]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[UUID]:
        async with connection.transaction():
            await allow_deletes(connection)
            await lock_branches(connection, search.tenant, branches_of(due))
            rows = await connection.fetch(
                _TAKE_OLD,
                search.tenant,
                [found.id for found in due],
                search.policy.checkpoints_kept,
            )
        return [row["checkpoint_id"] for row in rows]
