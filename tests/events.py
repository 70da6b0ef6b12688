"""What tests ask of events."""

import asyncio
from collections import Counter
from typing import TypeAlias
from uuid import UUID

import asyncpg

from durable_context import Branch
from durable_context.events import ContextEvent

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
WAIT = 30.0
REPORT = "\n".join(f"line {n}: pressure {n * 7} kPa" for n in range(400))
# What every event must have been caused by, one row each.
CAUSES = """
select t.branch_uuid, 'recorded' as kind from durable_context.turns t
union all select t.branch_uuid, 'prepared' from durable_context.turns t
where t.manifest is not null
union all select a.branch_uuid, case a.source when 'put' then 'put' else 'offloaded' end
from durable_context.artifacts a
union all select b.branch_uuid, 'forked' from durable_context.branches b
where b.fork_turn is not null
union all select b.parent_uuid, 'forked' from durable_context.branches b
where b.fork_turn is not null
union all select c.branch_uuid, 'compaction_started' from durable_context.compactions c
union all select c.branch_uuid, 'compaction_' || c.status from durable_context.compactions c
where c.status <> 'running'
"""


async def all_events(branch: Branch) -> list[ContextEvent]:
    return [event async for event in branch.events()]


async def kinds(branch: Branch) -> list[str]:
    return [event.kind for event in await all_events(branch)]


async def check_events_are_what_happened(connection: Connection) -> None:
    """Numbered without holes, and one for every row, of all branches."""
    rows = await connection.fetch(
        "select branch_uuid, kind, event_no from durable_context.events order by event_no"
    )
    numbers: dict[UUID, list[int]] = {}
    told: Counter[tuple[UUID, str]] = Counter()
    for row in rows:
        numbers.setdefault(row["branch_uuid"], []).append(row["event_no"])
        if row["kind"] not in ("over_budget", "compaction_skipped"):
            told[row["branch_uuid"], row["kind"]] += 1
    for found in numbers.values():
        assert found == list(range(1, len(found) + 1))
    assert told == Counter(tuple(row) for row in await connection.fetch(CAUSES))


async def somebody_waits(connection: Connection) -> None:
    """Returns when a statement of another connection waits for a lock."""
    async with asyncio.timeout(WAIT):
        while not await connection.fetchval("select count(*) from pg_locks where not granted"):
            pass
