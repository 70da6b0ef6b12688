"""What compactions were tried, skipped and paid for. Every statement filters on the tenant."""

from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.compaction.accounting import BALANCE
from durable_context.database import Pool, acquired
from durable_context.models import Compaction

COLUMNS = (
    "c.compaction_id, b.conversation_id, b.branch_id, c.level, c.from_turn, c.to_turn, c.status,"
    " c.reason, c.attempts, c.error, c.recipe, c.tokens_before, c.tokens_after, c.focus,"
    f" c.input_tokens, c.output_tokens, c.price, c.head_turn, c.saved_tokens, c.broken_tokens,"
    " c.saved_until,"
    f" {BALANCE} as balance, c.usage, c.workflow_id, c.run_id, c.started_at, c.finished_at"
)
"""Of a compaction c of a branch b."""


class CompactionHistory:
    """One tenant's compactions, newest first."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def of_branch(self, branch_uuid: UUID, limit: int) -> tuple[Compaction, ...]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {COLUMNS} from durable_context.compactions c"
                " join durable_context.branches b"
                " on b.tenant = c.tenant and b.branch_uuid = c.branch_uuid"
                " where c.tenant = $1 and c.branch_uuid = $2"
                " order by c.started_at desc, c.from_turn desc, c.level desc limit $3",
                self._tenant,
                branch_uuid,
                limit,
            )
        return tuple(map(compaction_from_row, rows))

    async def of_tenant(self, limit: int) -> tuple[Compaction, ...]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {COLUMNS} from durable_context.compactions c"
                " join durable_context.branches b"
                " on b.tenant = c.tenant and b.branch_uuid = c.branch_uuid"
                " where c.tenant = $1"
                " order by c.started_at desc, c.from_turn desc, c.level desc limit $2",
                self._tenant,
                limit,
            )
        return tuple(map(compaction_from_row, rows))


def compaction_from_row(row: asyncpg.Record) -> Compaction:
    """A compaction from a row of COLUMNS."""
    return Compaction.model_validate(dict(row) | {"usage": stored_json.loads(row["usage"])})
