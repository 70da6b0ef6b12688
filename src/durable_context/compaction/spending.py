"""What calls of models for compactions took, as PostgreSQL counts it."""

from collections.abc import Sequence
from uuid import UUID

from durable_context.contracts import Spending
from durable_context.database import Pool, acquired


async def spent(
    pool: Pool, tenant: str, branch_uuid: UUID, compaction_ids: Sequence[UUID]
) -> Spending:
    """So far, on these compactions of a branch."""
    async with acquired(pool) as connection:
        row = await connection.fetchrow(
            "select coalesce(sum(input_tokens), 0)::bigint,"
            " coalesce(sum(output_tokens), 0)::bigint,"
            " case when count(price) = count(*) then coalesce(sum(price), 0) end"
            " from durable_context.compactions where tenant = $1 and branch_uuid = $2"
            " and compaction_id = any($3::uuid[])",
            tenant,
            branch_uuid,
            compaction_ids,
        )
    assert row is not None
    return Spending(input_tokens=row[0], output_tokens=row[1], price=row[2])
