"""How far compaction is behind, over all branches of all tenants: one statement, for whoever runs
the workers. What is paused is left out: it waits because somebody said so.
"""

from typing import Final, NamedTuple

from durable_context.compaction.lag import LAG_TOKENS, TAIL_COLUMNS
from durable_context.database import Pool, acquired
from durable_context.policy import CompactionPolicy

STATEMENT_SECONDS: Final = 10
LOOKED_AT: Final = 1_000
"""Branches, of those that were used the longest ago and of those that are furthest behind, whose
turns are looked at for how long they have waited. No other has waited much longer.
"""

# $1 keep_raw_turns, $2 segment_turns, $3 segment_tokens, $4 run_raw_tokens. A branch has waited
# since the turn that filled its segment was recorded; imported or forked, since it was there.
_TOTALS: Final = f"""
with tail as not materialized (
    select b.*, {TAIL_COLUMNS.format(keep_raw_turns="$1", run_raw_tokens="$4")}
    from durable_context.branches b
    left join durable_context.tenants t on t.tenant = b.tenant
    where b.head_turn - $1::integer > b.checkpoint_turn
        and b.paused_at is null and t.paused_at is null
),
lagging as materialized (
    select t.tenant, t.branch_uuid, t.checkpoint_turn, t.head_turn, t.created_at,
        coalesce(t.last_turn_at, t.created_at) as used_at, t.tail_turns as turns,
        {LAG_TOKENS} as tokens
    from tail t where t.free_tokens > 0
),
due as materialized (
    select l.* from lagging l
    where l.turns >= $2::integer or l.tokens >= $3::integer
),
looked_at as (
    (select d.* from due d order by d.used_at limit {LOOKED_AT})
    union
    (select d.* from due d order by d.turns desc limit {LOOKED_AT})
)
select (select count(*) from due) as branches,
    (select coalesce(sum(l.turns), 0) from lagging l)::bigint as turns,
    (select coalesce(sum(l.tokens), 0) from lagging l)::bigint as tokens,
    coalesce((
        select extract(epoch from clock_timestamp() - min(greatest(n.recorded_at, d.created_at)))
        from looked_at d join durable_context.visible_turns n on n.tenant = d.tenant
            and n.seen_by = d.branch_uuid
            and n.turn_no = least(d.checkpoint_turn + $1::integer + $2::integer, d.head_turn)
    ), 0)::double precision as seconds
"""


class TotalLag(NamedTuple):
    """`branches` are those of which a segment is due; `seconds`, how long the oldest of these has
    been so. `turns` and `tokens` count what need not stay raw, due or not.
    """

    branches: int
    turns: int
    tokens: int
    seconds: float


async def total_lag(pool: Pool, policy: CompactionPolicy) -> TotalLag:
    """By a policy that all branches are taken to have. Reads each row of branches once."""
    async with acquired(pool) as connection, connection.transaction(readonly=True):
        await connection.execute(f"set local statement_timeout = '{STATEMENT_SECONDS}s'")
        await connection.execute("set local jit = off")
        row = await connection.fetchrow(
            _TOTALS,
            policy.keep_raw_turns,
            policy.segment_turns,
            policy.segment_tokens,
            policy.run_raw_tokens,
        )
    assert row is not None
    return TotalLag(row["branches"], row["turns"], row["tokens"], max(row["seconds"], 0.0))
