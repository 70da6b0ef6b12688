"""How compaction keeps up: what waits, what is paused, what failed, what is damaged."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg

from durable_context.database import Connection, Pool, acquired
from durable_context.doctor.diagnosis import Diagnosis, failed, ok, warning
from durable_context.errors import DurableContextError
from durable_context.policy import CompactionPolicy

LATE_AFTER = timedelta(hours=1)
LOOKED_AT = 1_000
"""Compactions of the last day, the newest of them, and branches that are behind."""
TOLERATED = 0.1
"""Share of failed, or degraded, compactions."""

# Behind since the turn was recorded that made a segment due; one that is due by its tokens, since
# the newest one.
_BACKLOG = f"""
select count(*) as branches, min(t.recorded_at) as since
from (
    select b.tenant, b.branch_uuid, least(b.checkpoint_turn + $2 + $3, b.head_turn) as due_turn
    from durable_context.branches b
    where b.tenant = $1 and b.paused_at is null
        and (b.open_run_turn is null or b.head_tokens - b.checkpoint_tokens > $6)
        and (b.head_turn - $2 - b.checkpoint_turn >= $3 or (
            b.head_turn - $2 > b.checkpoint_turn and b.head_tokens - b.checkpoint_tokens >= $4
        ))
    limit {LOOKED_AT}
) b cross join lateral (
    select t.recorded_at from durable_context.visible_turns t
    where t.tenant = b.tenant and t.seen_by = b.branch_uuid
        and t.turn_no = b.due_turn
) t
where t.recorded_at < clock_timestamp() - $5::interval
"""
_PAUSED = """
select (
    select t.paused_because from durable_context.tenants t
    where t.tenant = $1 and t.paused_at is not null
) as because, (
    select t.paused_at from durable_context.tenants t where t.tenant = $1
) as tenant_at, (
    select count(*) from durable_context.branches b
    where b.tenant = $1 and b.paused_at is not null
) as branches
"""
_COMPACTIONS = f"""
select count(*) as compactions, count(*) filter (where c.status = 'failed') as failed,
    count(*) filter (where s.degraded) as degraded
from (
    select c.* from durable_context.compactions c
    where c.tenant = $1 and c.started_at > clock_timestamp() - interval '1 day'
        and c.status in ('completed', 'failed')
    order by c.started_at desc limit {LOOKED_AT}
) c
left join durable_context.summaries s on s.tenant = c.tenant and s.branch_uuid = c.branch_uuid
    and s.level = c.level and s.from_turn = c.from_turn and s.to_turn = c.to_turn
    and s.state = 'current'
"""
_NEWEST_ERROR = """
select left(c.error, 200) from durable_context.compactions c
where c.tenant = $1 and c.status = 'failed' order by c.started_at desc limit 1
"""
_DAMAGES = """
select count(*) as found, count(distinct d.branch_uuid) as branches,
    count(*) filter (where d.finding ->> 'severity' = 'error') as errors
from durable_context.damages d where d.tenant = $1
"""


async def upkeep_diagnoses(
    pool: Pool, tenant: str, policy: CompactionPolicy
) -> tuple[Diagnosis, ...]:
    """Of one tenant. Needs the schema."""

    async def backlog(connection: Connection) -> Diagnosis:
        return await _backlog(connection, tenant, policy)

    async def compactions(connection: Connection) -> Diagnosis:
        return await _compactions(connection, tenant)

    async def paused(connection: Connection) -> Diagnosis:
        return await _paused(connection, tenant)

    async def damage(connection: Connection) -> Diagnosis:
        return await _damage(connection, tenant)

    checks = {"pauses": paused, "backlog": backlog, "compactions": compactions, "damage": damage}
    return tuple([await _looked(pool, check, look) for check, look in checks.items()])


async def _looked(
    pool: Pool, check: str, look: Callable[[Connection], Awaitable[Diagnosis]]
) -> Diagnosis:
    try:
        async with acquired(pool) as connection:
            return await look(connection)
    except (DurableContextError, asyncpg.PostgresError, TimeoutError) as error:
        why = str(error) or type(error).__name__
        return failed(check, f"cannot be looked at: {why:.300}", "mend the database first")


async def _backlog(connection: Connection, tenant: str, policy: CompactionPolicy) -> Diagnosis:
    row: Any = await connection.fetchrow(
        _BACKLOG,
        tenant,
        policy.keep_raw_turns,
        policy.segment_turns,
        policy.segment_tokens,
        LATE_AFTER,
        policy.run_raw_tokens,
    )
    if not row["branches"]:
        return ok("backlog", "no branch waits for compaction for more than an hour")
    message = f"{row['branches']:,} branches wait for compaction for more than an hour"
    mend = (
        "see that a worker runs and Temporal is reached; the catch-up schedule then starts them:"
        " `durable-context schedules trigger catch-up`"
    )
    return warning("backlog", message, mend)


async def _paused(connection: Connection, tenant: str) -> Diagnosis:
    row: Any = await connection.fetchrow(_PAUSED, tenant)
    if row["tenant_at"] is not None:
        because = f": {row['because']}" if row["because"] else ""
        message = f"the tenant is paused since {row['tenant_at']:%Y-%m-%d %H:%M} UTC{because}"
        return warning("pauses", message, "`durable-context resume`, when it is to be compacted")
    if row["branches"]:
        return ok("pauses", f"the tenant is not paused; {row['branches']:,} branches are")
    return ok("pauses", "nothing is paused")


async def _compactions(connection: Connection, tenant: str) -> Diagnosis:
    row: Any = await connection.fetchrow(_COMPACTIONS, tenant)
    total = row["compactions"]
    message = (
        f"of {total:,} in the last day {row['failed']:,} failed and {row['degraded']:,} were"
        " degraded"
    )
    if row["failed"] > TOLERATED * total:
        why = await connection.fetchval(_NEWEST_ERROR, tenant)
        return warning("compactions", f"{message}; the newest failure: {why}", _ASK_THE_MODEL)
    if row["degraded"] > TOLERATED * total:
        mend = f"{_ASK_THE_MODEL}; then `durable-context schedules trigger upgrade` makes them anew"
        return warning("compactions", message, mend)
    return ok("compactions", message)


async def _damage(connection: Connection, tenant: str) -> Diagnosis:
    row: Any = await connection.fetchrow(_DAMAGES, tenant)
    if not row["found"]:
        return ok("damage", "the last verification found none")
    message = f"{row['found']:,} findings in {row['branches']:,} branches stand"
    mend = "`durable-context verify` names them; what is damaged comes from a backup"
    return (failed if row["errors"] else warning)("damage", message, mend)


_ASK_THE_MODEL = "see the worker's log, its DURABLE_CONTEXT_SUMMARIZERS and the keys of its models"
