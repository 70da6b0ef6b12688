"""What compactions leave behind besides nodes: rows that tell of them, and partial results."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from durable_context.database import Connection
from durable_context.retention.pages import BATCH, Found, Search

_FIND_COMPACTIONS: Final = """
select array[c.started_at::text, c.compaction_id::text] as key, c.compaction_id as id,
    pg_column_size(c.usage) + coalesce(pg_column_size(c.error), 0) as bytes,
    c.status <> 'running' and c.branch_uuid <> all($6::uuid[])
        and coalesce(c.finished_at, c.started_at) < clock_timestamp() - $4::interval
        and $5 <= (
            select count(*) from (
                select from durable_context.compactions n
                where n.branch_uuid = c.branch_uuid
                    and (n.started_at, n.compaction_id) > (c.started_at, c.compaction_id)
                limit $5
            ) newer
        ) as due
from (
    select * from durable_context.compactions c
    where c.tenant = $1 and c.started_at < clock_timestamp() - $4::interval
        and c.started_at >= ($2::text[])[1]::timestamptz
        and (c.started_at, c.compaction_id)
            > (($2::text[])[1]::timestamptz, ($2::text[])[2]::uuid)
    order by c.started_at, c.compaction_id limit $3
) c order by c.started_at, c.compaction_id
"""
_TAKE_COMPACTIONS: Final = """
delete from durable_context.compactions c
where c.tenant = $1 and c.compaction_id = any($2::uuid[]) and c.status <> 'running'
returning c.compaction_id
"""
_FIND_PARTS: Final = """
select array[p.created_at::text, p.branch_uuid::text, p.recipe, encode(p.input_hash, 'hex')] as key,
    pg_column_size(p.draft) as bytes, p.branch_uuid <> all($5::uuid[]) as due
from durable_context.summary_parts p
where p.tenant = $1 and p.created_at < clock_timestamp() - $4::interval
    and p.created_at >= ($2::text[])[1]::timestamptz
    and (p.created_at, p.branch_uuid, p.recipe, p.input_hash) > (
        ($2::text[])[1]::timestamptz, ($2::text[])[2]::uuid, ($2::text[])[3],
        decode(($2::text[])[4], 'hex')
    )
order by p.created_at, p.branch_uuid, p.recipe, p.input_hash limit $3
"""
_TAKE_PARTS: Final = """
delete from durable_context.summary_parts p
using unnest($2::uuid[], $3::text[], $4::text[]) d (branch_uuid, recipe, input_hash)
where p.tenant = $1 and p.branch_uuid = d.branch_uuid and p.recipe = d.recipe
    and p.input_hash = decode(d.input_hash, 'hex')
returning p.branch_uuid::text, p.recipe, encode(p.input_hash, 'hex')
"""


class OldCompactions:
    """Finished ones, beyond the newest of each branch."""

    name = "compactions"
    first: tuple[str, ...] = ("-infinity", str(UUID(int=0)))

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        policy = search.policy
        rows = await connection.fetch(
            _FIND_COMPACTIONS,
            search.tenant,
            after,
            BATCH,
            policy.compactions_after,
            policy.compactions_kept,
            search.branches,
        )
        return [
            Found(tuple(row["key"]), row["due"], "compactions", row["bytes"], row["id"])
            for row in rows
        ]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[UUID]:
        ids = [found.id for found in due]
        rows = await connection.fetch(_TAKE_COMPACTIONS, search.tenant, ids)
        return [row["compaction_id"] for row in rows]


class OldSummaryParts:
    """A summarizer that is retried later makes them again."""

    name = "summary_parts"
    first: tuple[str, ...] = ("-infinity", str(UUID(int=0)), "", "")

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        rows = await connection.fetch(
            _FIND_PARTS,
            search.tenant,
            after,
            BATCH,
            search.policy.summary_parts_after,
            search.branches,
        )
        return [
            Found(
                tuple(row["key"]), row["due"], "summary_parts", row["bytes"], tuple(row["key"][1:])
            )
            for row in rows
        ]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[tuple[str, ...]]:
        columns = [list(column) for column in zip(*(found.id for found in due), strict=True)]
        rows = await connection.fetch(_TAKE_PARTS, search.tenant, *columns)
        return [tuple(row) for row in rows]
