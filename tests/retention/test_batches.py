"""Retention is a batch at a time: bounded, resumable, and harmless beside others."""

import asyncio
import sys
import time

import pytest

from durable_context import ContextClient
from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.retention import RetentionReport, run_page
from durable_context.retention.pages import BATCH
from tests.compacting import compact_once
from tests.retention.aged import Connection, at_once, checked_gc, dump, gc, shown, talk
from tests.turns import numbered

CONTENTS = ContentStore("memory:///")
ROWS = 100_000
BRANCHES = 500
RETIRED = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, state, headline, text,
    token_count, input_tokens, covered_tokens, made_by, published_in, replaced_in, replaced_at
)
select b.tenant, b.branch_uuid, 0, n, n, 'r', sha256('x'), 'superseded', 'A headline',
    repeat('A text. ', 30), 60, 100, 100, 'r', 0, 1, now() - interval '31 days'
from durable_context.branches b, generate_series(1, $1) n
where b.conversation_id like 'talk-%'
"""
BRANCH = """
insert into durable_context.branches (
    tenant, conversation_id, branch_id, encoding, text_search, head_turn, head_tokens
)
select 'default', 'talk-' || n, 'main', 'o200k_base', 'pg_catalog.english', 0, 0
from generate_series(1, $1) n
"""


async def retire(connection: Connection, branches: int, each: int) -> None:
    """Superseded nodes that nobody names."""
    await connection.execute(BRANCH, branches)
    await connection.execute(RETIRED, each)


async def pages(pool: Pool) -> list[RetentionReport]:
    reports, cursor = [], None
    while True:
        page = await run_page(pool, CONTENTS, "default", cursor)
        reports.append(page.report)
        if (cursor := page.cursor) is None:
            return reports


async def left(connection: Connection) -> int:
    return await connection.fetchval("select count(*) from durable_context.summaries")


async def test_100_000_rows_go_in_bounded_batches(
    client: ContextClient, pool: Pool, connection: Connection, capsys: pytest.CaptureFixture[str]
):
    await retire(connection, BRANCHES, ROWS // BRANCHES)
    await connection.execute("analyze")
    await client.gc(dry_run=True)
    assert await left(connection) == ROWS
    slowest, cursor, taken, count = 0.0, None, 0, 0
    started = time.perf_counter()
    while True:
        began = time.perf_counter()
        page = await run_page(pool, CONTENTS, "default", cursor)
        slowest = max(slowest, time.perf_counter() - began)
        assert page.report.examined <= BATCH
        taken, count = taken + page.report.total, count + 1
        if (cursor := page.cursor) is None:
            break
        assert len(cursor) < 200
    seconds = time.perf_counter() - started
    with capsys.disabled():
        slow = f"the slowest {slowest * 1e3:.0f} ms"
        print(f"\n{taken:,} rows in {seconds:.1f} s, {count} batches, {slow}")  # noqa: T201
    assert taken == ROWS
    assert await left(connection) == 0
    assert count >= ROWS // BATCH


async def test_a_page_that_was_lost_is_done_again_from_the_same_cursor(
    client: ContextClient, pool: Pool, connection: Connection
):
    await retire(connection, 3, 500)
    first = await run_page(pool, CONTENTS, "default")
    assert first.report.total == BATCH
    second = await run_page(pool, CONTENTS, "default", first.cursor)
    again = await run_page(pool, CONTENTS, "default", first.cursor)
    assert (second.report.total, again.report.total) == (BATCH, BATCH)
    assert await left(connection) == 0
    assert (await run_page(pool, CONTENTS, "default", again.cursor)).report.total == 0


COLLECTING = """
import asyncio, sys
from durable_context import ContextClient

async def main():
    async with await ContextClient.connect(sys.argv[1], temporal=None) as client:
        await client.gc(told=lambda report: print(report.total, flush=True))

asyncio.run(main())
"""


async def test_killed_between_batches_it_goes_on_the_next_time(
    client: ContextClient, pool: Pool, connection: Connection, database_url: str
):
    root = await talk(client, pool)
    before = await shown(root)
    kept = await left(connection)
    await retire(connection, 20, 500)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COLLECTING, database_url), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await process.stdout.readline()
    process.kill()
    await process.communicate()
    remaining = await left(connection)
    assert kept < remaining < kept + 10_000
    report = await client.gc()
    assert await left(connection) == kept
    assert report.count("summaries") <= remaining - kept
    assert await shown(root) == before


async def test_several_at_once_take_each_row_once(
    client: ContextClient, pool: Pool, connection: Connection
):
    await retire(connection, 30, 100)
    runs = await asyncio.gather(*(pages(pool) for _ in range(4)))
    assert sum(report.total for run in runs for report in run) == 3_000
    assert await left(connection) == 0


async def test_with_nothing_to_do_a_run_is_a_page_or_two(
    client: ContextClient, pool: Pool, connection: Connection
):
    await talk(client, pool, turns=9)
    reports = await pages(pool)
    assert len(reports) <= 3
    assert sum(report.total for report in reports) == 0


async def test_a_dry_run_writes_nothing_and_says_what_a_run_takes(
    client: ContextClient, pool: Pool, connection: Connection
):
    root = await talk(client, pool)
    await root.fork("fork", at_turn=20)
    await root.revert(18)
    await retire(connection, 3, 700)
    await client.set_retention(at_once(checkpoints_kept=1))
    before = await dump(connection)
    announced = await client.gc(dry_run=True)
    assert await dump(connection) == before
    assert announced.count("summaries") > 2_100
    report = await checked_gc(client, at_once(checkpoints_kept=1))
    assert report.taken == announced.taken


@pytest.mark.parametrize(
    "cursor", ["", "x", "[]", "{}", "1", "null", '["turns", "x"]', '["summaries"]', "[1, 2]"]
)
async def test_what_is_no_cursor_is_refused(pool: Pool, cursor: str):
    with pytest.raises(InvalidArgument, match="cursor="):
        await run_page(pool, CONTENTS, "default", cursor)


async def test_a_cursor_of_a_key_that_is_none_is_refused(pool: Pool):
    with pytest.raises(InvalidArgument, match="cursor="):
        await run_page(pool, CONTENTS, "default", '["summaries", "x", "y"]')


async def test_whatever_is_recorded_and_compacted_meanwhile_stays(
    client: ContextClient, pool: Pool, connection: Connection
):
    branches = [await talk(client, pool, f"use-{n}", turns=8) for n in range(3)]
    await client.set_retention(at_once(checkpoints_kept=1))

    async def use(n: int) -> None:
        await talk_on(client, pool, f"use-{n}")

    async def collect() -> None:
        for _ in range(15):
            await client.gc()

    await asyncio.gather(*(use(n) for n in range(3)), collect(), collect())
    await gc(client)
    for branch in branches:
        assert (await branch.checkpoints())[-1].turn_no == 36
        assert b"SHP-0040" in await shown(branch)


async def talk_on(client: ContextClient, pool: Pool, conversation_id: str) -> None:
    branch = await client.find_branch(conversation_id)
    for turn in range(9, 41):
        await branch.record_turn(numbered(turn))
        await compact_once(pool, branch.branch_uuid, branch.policy)
