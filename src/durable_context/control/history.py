"""What compactions were tried, skipped and paid for. Every statement filters on the tenant."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, get_args
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.compaction.accounting import BALANCE
from durable_context.contracts import Reason, TreeReason
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import InvalidArgument
from durable_context.models import Compaction, Value

# The nodes of a segment are those of its level, and what was merged of them with it.
_DEGRADED = """
(c.published_in is not null and (exists (
    select from durable_context.summaries s
    where s.tenant = c.tenant and s.branch_uuid = c.branch_uuid and s.level = c.level
        and s.from_turn = c.from_turn and s.to_turn = c.to_turn
        and s.published_in = c.published_in and s.degraded
) or c.level = 0 and c.reason in ('turn', 'request', 'sweep') and exists (
    select from durable_context.summaries s
    where s.tenant = c.tenant and s.branch_uuid = c.branch_uuid and s.level between 1 and 30
        and s.to_turn = c.to_turn and s.published_in = c.published_in and s.degraded
)))"""
COLUMNS = (
    "c.compaction_id, b.conversation_id, b.branch_id, c.level, c.from_turn, c.to_turn, c.status,"
    " c.reason, c.attempts, c.error, c.recipe, c.tokens_before, c.tokens_after, c.focus,"
    " c.input_tokens, c.output_tokens, c.price, c.head_turn, c.saved_tokens, c.broken_tokens,"
    f" c.saved_until, {_DEGRADED} as degraded,"
    f" {BALANCE} as balance, c.usage, c.workflow_id, c.run_id, c.started_at, c.finished_at"
)
"""Of a compaction c of a branch b."""
_FROM = """
from durable_context.compactions c
join durable_context.branches b on b.tenant = c.tenant and b.branch_uuid = c.branch_uuid
where c.tenant = $1 and {whose}
    and ($3::text is null or c.status = $3) and ($4::text is null or c.reason = $4)
"""
_NEWEST = f"""
select {COLUMNS} {_FROM} {{begin}}
order by c.started_at desc, c.from_turn desc, c.level desc, c.compaction_id desc limit $5
"""
_BEGIN = """
and c.started_at <= $6
and (c.started_at, c.from_turn, c.level, c.compaction_id) <= ($6, $7, $8, $9)
"""
_PLACE = """
select started_at, from_turn, level, compaction_id from durable_context.compactions
where tenant = $1 and compaction_id = $3 and ($2::uuid is null or branch_uuid = $2)
"""
_TOTALS = f"""
select count(*), count(*) filter (where c.status = 'running'),
    count(*) filter (where c.status = 'completed'), count(*) filter (where c.status = 'failed'),
    count(*) filter (where c.status = 'skipped'), coalesce(sum(c.input_tokens), 0)::bigint,
    coalesce(sum(c.output_tokens), 0)::bigint, coalesce(sum(c.price), 0),
    count(*) filter (where c.price is null), coalesce(sum({BALANCE}), 0)::bigint {_FROM}
"""

CompactionStatus = Literal["running", "completed", "failed", "skipped"]


class CompactionTotals(Value):
    """Of all compactions that were asked for. `price` is the sum of those that are known, in US
    dollars; of `unpriced` it is not.
    """

    count: int
    running: int
    completed: int
    failed: int
    skipped: int
    input_tokens: int
    output_tokens: int
    price: Decimal
    unpriced: int
    balance: int


class CompactionHistory:
    """One tenant's compactions, newest first; of one branch unless it is None."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID | None = None) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid
        # Plans are made once for all values, so that a choice in the statement would cost an index.
        self._whose = "c.branch_uuid = $2" if branch_uuid else "$2::uuid is null"

    async def newest(
        self,
        limit: int,
        begin: UUID | None = None,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> tuple[Compaction, ...]:
        """From the one with the id `begin` on. Raises InvalidArgument."""
        _check(status, reason)
        asked = (self._tenant, self._branch, status, reason, limit)
        async with acquired(self._pool) as connection:
            place: Sequence[Any] = ()
            if begin is not None:
                place = await self._place(connection, begin)
            statement = _NEWEST.format(whose=self._whose, begin=_BEGIN if place else "")
            rows = await connection.fetch(statement, *asked, *place)
        return tuple(map(compaction_from_row, rows))

    async def totals(
        self,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> CompactionTotals:
        """Reads all of them. Raises InvalidArgument."""
        _check(status, reason)
        async with acquired(self._pool) as connection:
            statement = _TOTALS.format(whose=self._whose)
            row = await connection.fetchrow(statement, self._tenant, self._branch, status, reason)
        assert row is not None
        fields = zip(CompactionTotals.model_fields, row, strict=True)
        return CompactionTotals.model_validate(dict(fields))

    async def _place(self, connection: Connection, begin: UUID) -> Sequence[Any]:
        place = await connection.fetchrow(_PLACE, self._tenant, self._branch, begin)
        if place is None:
            raise InvalidArgument(f"begin={begin!s:.40}; there is no such compaction")
        return tuple(place)


def _check(status: object, reason: object) -> None:
    statuses, reasons = get_args(CompactionStatus), (*get_args(Reason), *get_args(TreeReason))
    for name, value, allowed in (("status", status, statuses), ("reason", reason, reasons)):
        if value is not None and value not in allowed:
            raise InvalidArgument(f"{name}={value!r:.80}; allowed are {', '.join(allowed)}")


def compaction_from_row(row: asyncpg.Record) -> Compaction:
    """A compaction from a row of COLUMNS."""
    return Compaction.model_validate(dict(row) | {"usage": stored_json.loads(row["usage"])})
