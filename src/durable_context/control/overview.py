"""All branches of a tenant at a glance: one statement for a page of them, one for the lag of
these, one for the totals.

Those that are furthest behind come first, which no index can give: the figures change with each
turn. A page reads each of the tenant's rows of branches once, and nothing else of most of them:
totals, order and filters go by an estimate.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

from durable_context.compaction.accounting import BALANCE
from durable_context.compaction.lag import LAG_TOKENS, TAIL_COLUMNS, is_due, lag_of
from durable_context.compaction.segments import TurnSize
from durable_context.control.history import COLUMNS, compaction_from_row
from durable_context.control.pausing import pauses_of
from durable_context.control.status import BranchStatus, StatusFilter, StatusPage, StatusTotals
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import InvalidArgument
from durable_context.models import Compaction, Lag
from durable_context.policy import CompactionPolicy

# $1 tenant, $2 conversation, or how its id begins, or null, $3 keep_raw_turns, $4 segment_turns,
# $5 segment_tokens, $6 run_raw_tokens. `segments`: how many the lag would fill.
_JUDGED = """
with tail as not materialized (
    select b.*, t.paused_at as tenant_paused_at, t.paused_because as tenant_paused_because,
        {tail}
    from durable_context.branches b
    left join durable_context.tenants t on t.tenant = b.tenant
    where b.tenant = $1 and ($2::text is null or {named})
),
lagging as not materialized (
    select t.*, case when t.free_tokens > 0 then t.tail_turns else 0 end as lag_turns,
        case when t.tail_turns = 0 then 0 else {lag_tokens} end as lag_tokens
    from tail t
),
judged as not materialized (
    select l.*, greatest(l.lag_turns::double precision / $4::integer,
        l.lag_tokens::double precision / $5::integer) as segments
    from lagging l
)
"""
_NAMED: Final = "b.conversation_id = $2"
_BEGINNING: Final = "pg_catalog.starts_with(b.conversation_id, $2)"
_FAILED = """
select f.branch_uuid from durable_context.compactions f
where f.tenant = $1 and f.status = 'failed' and not exists (
    select from durable_context.compactions n
    where n.tenant = $1 and n.branch_uuid = f.branch_uuid and n.status = 'completed'
        and n.started_at > f.started_at
)
"""
_RUNNING = """
select r.branch_uuid from durable_context.compactions r
where r.tenant = $1 and r.status = 'running'
"""
_PAUSED = "j.paused_at is not null or j.tenant_paused_at is not null"
_FILTERS: Final[dict[StatusFilter | None, str]] = {
    None: "true",
    "behind": "j.segments >= 1",
    "failed": f"j.branch_uuid in ({_FAILED})",
    "running": f"j.branch_uuid in ({_RUNNING})",
    "paused": _PAUSED,
}
# $7 and $8: where the last page ended. What is looked up elsewhere is so for a page alone.
LOOKED_AT: Final = 100
"""Turns at the end of a long tail that are read, besides its first segment."""
_PAGE = """
, page as materialized (
    select j.* from judged j
    where ({filter}) and ($7::double precision is null or j.segments < $7
        or j.segments = $7 and j.branch_uuid > $8::uuid)
    order by j.segments desc, j.branch_uuid limit $9
)
select p.conversation_id, p.branch_id, p.branch_uuid, p.head_turn, p.checkpoint_turn, p.segments,
    p.lag_turns, p.lag_tokens, p.open_run_turn, p.last_turn_at, p.paused_at, p.paused_because,
    p.tenant_paused_at, p.tenant_paused_because, (
        select count(*) from durable_context.pins n
        where n.tenant = $1 and n.branch_uuid = p.branch_uuid
    ) as pins, (
        select r.compaction_id from durable_context.compactions r
        where r.tenant = $1 and r.branch_uuid = p.branch_uuid and r.status = 'running'
        order by r.level, r.from_turn limit 1
    ) as running_id, (
        select case e.status when 'failed' then e.compaction_id end
        from durable_context.compactions e
        where e.tenant = $1 and e.branch_uuid = p.branch_uuid
            and e.status in ('completed', 'failed')
        order by e.started_at desc limit 1
    ) as failed_id, w.balance, w.price
from page p, lateral (
    select coalesce(sum({balance}), 0)::bigint as balance,
        case when count(*) = count(c.price) then coalesce(sum(c.price), 0) end as price
    from durable_context.branches b join durable_context.compactions c
        on c.tenant = b.tenant and c.branch_uuid = b.branch_uuid
    where b.tenant = $1 and b.branch_uuid = p.branch_uuid
) w
order by p.segments desc, p.branch_uuid
"""
# `offset 0`: by the view every turn of a lineage would be looked at.
_TAILS = """
select p.branch_uuid, t.turn_no, t.stored_tokens, t.raw_tokens, t.recorded_at
from unnest($2::uuid[], $3::integer[], $4::integer[]) p (branch_uuid, from_turn, to_turn)
join durable_context.lineage l on l.tenant = $1 and l.branch_uuid = p.branch_uuid,
lateral (
    select n.turn_no, n.stored_tokens, n.raw_tokens, n.recorded_at
    from durable_context.turns n
    where n.tenant = $1 and n.branch_uuid = l.ancestor_uuid
        and n.turn_no >= greatest(p.from_turn, l.from_turn)
        and n.turn_no <= least(p.to_turn, l.to_turn)
    offset 0
) t
order by p.branch_uuid, t.turn_no
"""
_TOTALS = """
, compacted as materialized (
    select coalesce(sum({balance}), 0)::bigint as balance, coalesce(sum(c.price), 0) as price,
        count(*) - count(c.price) as unpriced
    from durable_context.branches b join durable_context.compactions c
        on c.tenant = b.tenant and c.branch_uuid = b.branch_uuid
    where b.tenant = $1 and ($2::text is null or {named})
)
select s.*, w.* from compacted w, (
    select count(*) as branches, coalesce(sum(j.head_turn), 0)::bigint as turns,
        count(*) filter (where j.segments >= 1) as behind,
        count(*) filter (where j.branch_uuid in ({running})) as running,
        count(*) filter (where j.branch_uuid in ({failed})) as failed,
        count(*) filter (where {paused}) as paused,
        coalesce(sum(j.lag_turns), 0)::bigint as lag_turns,
        coalesce(sum(j.lag_tokens), 0)::bigint as lag_tokens
    from judged j
) s
"""


class _TailTurn(NamedTuple):
    turn_no: int
    token_count: int
    raw_tokens: int
    recorded_at: datetime


class Overview:
    """One tenant's branches, with the lag they have by `policy`."""

    def __init__(self, pool: Pool, tenant: str, policy: CompactionPolicy) -> None:
        self._pool = pool
        self._tenant = tenant
        self._policy = policy

    async def page(
        self,
        conversation_id: str | None,
        only: StatusFilter | None,
        limit: int,
        after: str | None,
        *,
        beginning: str | None = None,
    ) -> StatusPage:
        """`beginning`: of those conversations whose ids begin so. Raises InvalidArgument where
        `only` or `after` is none of ours.
        """
        if only not in _FILTERS:
            allowed = ", ".join(repr(name) for name in _FILTERS if name)
            raise InvalidArgument(f"only={only!r:.80}; allowed are {allowed}")
        named = _NAMED if beginning is None else _BEGINNING
        tail = TAIL_COLUMNS.format(keep_raw_turns="$3", run_raw_tokens="$6")
        judged = _JUDGED.format(named=named, tail=tail, lag_tokens=LAG_TOKENS)
        statement = judged + _PAGE.format(filter=_FILTERS[only], balance=BALANCE)
        judged_by, place = self._judged_by(beginning or conversation_id), _place(after)
        async with acquired(self._pool) as connection, connection.transaction():
            # Compiling the statement would take longer than it does.
            await connection.execute("set local jit = off")
            rows = await connection.fetch(statement, *judged_by, *place, limit + 1)
            found = await self._compactions(connection, rows[:limit])
            tails = await self._tails(connection, rows[:limit])
            totals = None
            if after is None:
                totals = await connection.fetchrow(judged + _totals(named), *judged_by)
        shown = rows[:limit]
        return StatusPage(
            branches=tuple(
                _status(row, found, tails[row["branch_uuid"]], self._policy) for row in shown
            ),
            totals=StatusTotals.model_validate(dict(totals)) if totals else None,
            after=_cursor(shown[-1]) if shown and len(rows) > limit else None,
        )

    def _judged_by(self, conversation_id: str | None) -> tuple[object, ...]:
        policy = self._policy
        return (
            self._tenant,
            conversation_id,
            policy.keep_raw_turns,
            policy.segment_turns,
            policy.segment_tokens,
            policy.run_raw_tokens,
        )

    async def _compactions(
        self, connection: Connection, rows: Sequence[asyncpg.Record]
    ) -> dict[UUID, Compaction]:
        ids = [row[name] for row in rows for name in ("running_id", "failed_id") if row[name]]
        if not ids:
            return {}
        found = await connection.fetch(
            f"select {COLUMNS} from durable_context.compactions c join durable_context.branches b"
            " on b.tenant = c.tenant and b.branch_uuid = c.branch_uuid"
            " where c.tenant = $1 and c.compaction_id = any($2::uuid[])",
            self._tenant,
            ids,
        )
        return {row["compaction_id"]: compaction_from_row(row) for row in found}

    async def _tails(
        self, connection: Connection, rows: Sequence[asyncpg.Record]
    ) -> dict[UUID, list[_TailTurn]]:
        spans = [(row["branch_uuid"], *span) for row in rows for span in _spans(row, self._policy)]
        columns = [[span[column] for span in spans] for column in range(3)]
        tails: dict[UUID, list[_TailTurn]] = {row["branch_uuid"]: [] for row in rows}
        for branch_uuid, *turn in await connection.fetch(_TAILS, self._tenant, *columns):
            tails[branch_uuid].append(_TailTurn(*turn))
        return tails


def _status(
    row: asyncpg.Record,
    compactions: dict[UUID, Compaction],
    tail: Sequence[_TailTurn],
    policy: CompactionPolicy,
) -> BranchStatus:
    sizes = [TurnSize(*turn[:3]) for turn in tail]
    pauses = [
        ("branch", row["paused_at"], row["paused_because"]),
        ("tenant", row["tenant_paused_at"], row["tenant_paused_because"]),
    ]
    return BranchStatus(
        conversation_id=row["conversation_id"],
        branch_id=row["branch_id"],
        branch_uuid=row["branch_uuid"],
        head_turn=row["head_turn"],
        checkpoint_turn=row["checkpoint_turn"],
        lag=_lag(row, tail, lag_of(tail, row["open_run_turn"], policy, sizes)),
        is_behind=is_due(sizes, row["open_run_turn"], policy),
        last_turn_at=row["last_turn_at"],
        pauses=pauses_of(pauses),
        pins=row["pins"],
        running=compactions.get(row["running_id"]),
        failed=compactions.get(row["failed_id"]),
        balance=row["balance"],
        price=row["price"],
    )


def _spans(row: asyncpg.Record, policy: CompactionPolicy) -> Iterator[tuple[int, int]]:
    """The turns of its tail that are read: of a long one those that say whether it is due."""
    begin, head = row["checkpoint_turn"] + 1, row["head_turn"]
    first = begin + policy.segment_turns - 1
    if head - first <= LOOKED_AT:
        yield begin, head
    else:
        yield begin, first
        yield head - LOOKED_AT + 1, head


def _lag(row: asyncpg.Record, tail: Sequence[_TailTurn], seen: Lag) -> Lag:
    """That of a tail that was read whole; else by the figures of the branch."""
    if len(tail) == row["head_turn"] - row["checkpoint_turn"]:
        return seen
    return Lag(turns=row["lag_turns"], tokens=row["lag_tokens"], seconds=seen.seconds)


def _totals(named: str) -> str:
    only = {"running": _RUNNING, "failed": _FAILED, "paused": _PAUSED}
    return _TOTALS.format(named=named, balance=BALANCE, **only)


def _cursor(row: asyncpg.Record) -> str:
    return f"{row['segments']!r}/{row['branch_uuid']}"


def _place(after: str | None) -> tuple[float | None, UUID | None]:
    if after is None:
        return None, None
    segments, _, branch_uuid = after.partition("/")
    try:
        return float(segments), UUID(branch_uuid)
    except ValueError:
        message = f"after={after!r:.80}; allowed is what `after` of a page says"
        raise InvalidArgument(message) from None
