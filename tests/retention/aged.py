"""Policies that wait for nothing, and what of a database can be counted."""

import asyncio
import json
from datetime import timedelta
from typing import Any, TypeAlias

import asyncpg

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.retention import RetentionPolicy, RetentionReport
from tests.compacting import compact_all
from tests.turns import numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
NOW = timedelta(0)
HOUR = timedelta(hours=1)
AT_ONCE = RetentionPolicy(
    superseded_after=NOW,
    rejected_after=NOW,
    drafts_after=HOUR,
    summary_parts_after=HOUR,
    contents_after=NOW,
    compactions_after=NOW,
    prompt_parts_after=NOW,
)
"""Everything that compaction left behind, however new; checkpoints and conversations stay."""
BUDGET = Budget(max_tokens=8_000)


def at_once(**fields: Any) -> RetentionPolicy:
    return AT_ONCE.model_copy(update=fields)


async def talk(
    client: ContextClient, pool: Pool, conversation_id: str = "talk", turns: int = 32
) -> Branch:
    """A compacted conversation: of 32 turns five leaves, the first four of them merged."""
    branch = await client.open_branch(conversation_id)
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid)
    return branch


async def shown(branch: Branch) -> bytes:
    """The prompt, byte for byte."""
    prepared = await branch.prepare("Where is shipment SHP-0003?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    return json.dumps(prepared.messages).encode()


async def gc(client: ContextClient, policy: RetentionPolicy = AT_ONCE) -> RetentionReport:
    await client.set_retention(policy)
    return await client.gc()


async def checked_gc(client: ContextClient, policy: RetentionPolicy = AT_ONCE) -> RetentionReport:
    """After a dry run, which must say what the run then takes."""
    await client.set_retention(policy)
    announced = await client.gc(dry_run=True)
    taken = await client.gc()
    assert (announced.taken, announced.conversation_ids) == (taken.taken, taken.conversation_ids)
    assert announced.dry_run and not taken.dry_run
    return taken


async def dump(connection: Connection) -> dict[str, list[str]]:
    """Every row of every table, as text."""
    tables = await connection.fetch(
        "select table_name::text from information_schema.tables"
        " where table_schema = 'durable_context' and table_type = 'BASE TABLE' order by 1"
    )
    return {
        name: [
            row[0]
            for row in await connection.fetch(
                f"select r::text from durable_context.{name} r order by 1"
            )
        ]
        for (name,) in tables
    }


async def states(connection: Connection, branch: Branch, table: str = "summaries") -> list[str]:
    rows = await connection.fetch(
        f"select state from durable_context.{table} where branch_uuid = $1 order by state",
        branch.branch_uuid,
    )
    return [row["state"] for row in rows]


_WAITS = "select exists (select from pg_locks where not granted)"


async def until_somebody_waits(connection: Connection) -> None:
    """For a lock that another transaction holds."""
    async with asyncio.timeout(20):
        while not await connection.fetchval(_WAITS):  # noqa: ASYNC110
            await asyncio.sleep(0)
