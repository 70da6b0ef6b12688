"""Sizes along a branch, in as many buckets as a plot has room for, and what was compacted where."""

from itertools import groupby
from typing import Final, Literal, get_args
from uuid import UUID

import asyncpg

from durable_context.database import Connection, Pool, acquired
from durable_context.models import Value

MOST_BUCKETS: Final = 400

MarkOutcome = Literal["completed", "degraded", "failed", "skipped", "running"]

# $3 keep_raw_turns: at a turn a prompt has the newest checkpoint that leaves so many turns raw.
# $4 the head, $5 turns a bucket holds.
_BUCKETS: Final = """
with turns as materialized (
    select t.turn_no, t.stored_tokens, t.head_tokens from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no <= $4
),
seen as materialized ( -- by itself: or the planner looks for one at each turn
    select c.turn_no, c.token_count from durable_context.visible_checkpoints c
    where c.tenant = $1 and c.seen_by = $2
),
checkpoints as materialized (
    select c.turn_no, c.token_count, t.head_tokens from seen c join turns t on t.turn_no = c.turn_no
),
standing as (
    select t.*, max(c.turn_no) over (order by t.turn_no) as checkpoint_turn
    from turns t left join checkpoints c on c.turn_no + $3 = t.turn_no
)
select min(s.turn_no) as from_turn, max(s.turn_no) as to_turn,
    sum(s.stored_tokens)::bigint as tokens, max(s.stored_tokens) as largest,
    max(s.head_tokens) as whole,
    max(s.head_tokens - coalesce(c.head_tokens - c.token_count, 0)) as carried
from standing s left join checkpoints c on c.turn_no = s.checkpoint_turn
group by (s.turn_no - 1) / $5::integer order by 1
"""
# What was published at once is told by its number; merges end where their segment does.
_MARKS: Final = """
with degraded as materialized (
    select distinct s.branch_uuid, s.to_turn, s.published_in
    from durable_context.lineage l
    join durable_context.summaries s on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
    where l.tenant = $1 and l.branch_uuid = $2 and s.degraded and s.published_in is not null
),
marks as (
    select (c.to_turn - 1) / $4::integer as bucket, c.compaction_id, c.from_turn, c.to_turn,
        c.reason, c.started_at, b.branch_id, case when c.status = 'completed' and exists (
            select from degraded d
            where d.branch_uuid = c.branch_uuid and d.to_turn = c.to_turn
                and d.published_in = c.published_in
        ) then 'degraded' else c.status end as outcome
    from durable_context.lineage l
    join durable_context.compactions c on c.tenant = l.tenant and c.branch_uuid = l.ancestor_uuid
        and c.to_turn <= l.compacted_turn
    join durable_context.branches b on b.tenant = l.tenant and b.branch_uuid = l.ancestor_uuid
    where l.tenant = $1 and l.branch_uuid = $2 and c.to_turn <= $3
)
select bucket, outcome, reason, count(*) as count, min(from_turn) as from_turn,
    max(to_turn) as to_turn, max(started_at) as started_at,
    (array_agg(compaction_id order by started_at desc))[1] as compaction_id,
    (array_agg(branch_id order by started_at desc))[1] as branch_id
from marks group by bucket, outcome, reason order by bucket, outcome, reason
"""


class SizeBucket(Value):
    """Neighbouring turns. `tokens` is what they have together, `largest` what the largest has, as
    they are stored. `whole`: of all turns up to here. `carried`: the most that a checkpoint and the
    turns after it came to at one of them; prompts show most of these turns as digests.
    """

    from_turn: int
    to_turn: int
    tokens: int
    largest: int
    whole: int
    carried: int


class CompactionMark(Value):
    """Compactions that end in one bucket and came to the same. `reasons` says how many had which;
    `compaction_id` is the newest, which is one of `branch_id`: the branch or an ancestor.
    """

    outcome: MarkOutcome
    count: int
    from_turn: int
    to_turn: int
    reasons: tuple[tuple[str, int], ...]
    compaction_id: UUID
    branch_id: str


class BranchSizes(Value):
    """Turns up to `inherited_turn` are its ancestors'."""

    head_turn: int
    inherited_turn: int
    buckets: tuple[SizeBucket, ...]
    marks: tuple[CompactionMark, ...]


async def branch_sizes(
    pool: Pool,
    tenant: str,
    branch_uuid: UUID,
    *,
    inherited_turn: int,
    keep_raw_turns: int,
    buckets: int,
) -> BranchSizes:
    """One bucket for each turn while there are no more turns than `buckets`."""
    async with acquired(pool) as connection, connection.transaction():
        # Compiling the statement would take longer than it does.
        await connection.execute("set local jit = off")
        head = await _head(connection, tenant, branch_uuid)
        width = max(1, -(-head // buckets))
        sizes = await connection.fetch(_BUCKETS, tenant, branch_uuid, keep_raw_turns, head, width)
        marks = await connection.fetch(_MARKS, tenant, branch_uuid, head, width)
    return BranchSizes(
        head_turn=head,
        inherited_turn=inherited_turn,
        buckets=tuple(SizeBucket.model_validate(dict(row)) for row in sizes),
        marks=_marks(marks),
    )


async def _head(connection: Connection, tenant: str, branch_uuid: UUID) -> int:
    head = await connection.fetchval(
        "select b.head_turn from durable_context.branches b"
        " where b.tenant = $1 and b.branch_uuid = $2",
        tenant,
        branch_uuid,
    )
    return head or 0


def _marks(rows: list[asyncpg.Record]) -> tuple[CompactionMark, ...]:
    alike = groupby(rows, key=lambda row: (row["bucket"], row["outcome"]))
    made = [_mark(outcome, list(group)) for (_, outcome), group in alike]
    order = get_args(MarkOutcome)
    return tuple(sorted(made, key=lambda mark: (mark.to_turn, order.index(mark.outcome))))


def _mark(outcome: MarkOutcome, rows: list[asyncpg.Record]) -> CompactionMark:
    newest = max(rows, key=lambda row: row["started_at"])
    return CompactionMark(
        outcome=outcome,
        count=sum(row["count"] for row in rows),
        from_turn=min(row["from_turn"] for row in rows),
        to_turn=max(row["to_turn"] for row in rows),
        reasons=tuple((row["reason"], row["count"]) for row in rows),
        compaction_id=newest["compaction_id"],
        branch_id=newest["branch_id"],
    )
