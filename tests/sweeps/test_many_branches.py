"""100,000 branches of which a few lag."""

import sys
import time

import asyncpg
import pytest

from durable_context import ContextClient
from durable_context.contracts.sweep import SweepKind
from durable_context.database import Pool
from tests.sweeps.rows import add_branches
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import QUICK, record

BRANCHES = 100_000
LAGGING = 50
SECONDS = 60


async def test_100_000_branches_are_swept_within_a_minute(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    connection: "asyncpg.Connection[asyncpg.Record]",
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = time.monotonic()
    await add_branches(connection, BRANCHES - LAGGING)
    lagging = [await client.open_branch(f"lagging-{number}") for number in range(LAGGING)]
    for branch in lagging:
        await record(branch, QUICK.segment_turns + QUICK.keep_raw_turns)
    figures = [f"made in {time.monotonic() - begun:.1f} s"]
    due: dict[SweepKind, int] = {"catch-up": LAGGING, "merge": 0, "upgrade": 0}
    async with sweeps.worker(pool):
        for kind, expected in due.items():
            begun = time.monotonic()
            result = await sweeps.sweep(kind)
            took = time.monotonic() - begun
            figures.append(f"{kind} {took:.1f} s ({BRANCHES / took:,.0f} branches/s)")
            assert (result.counts.scanned, result.counts.started) == (BRANCHES, expected)
            assert took < SECONDS
        for branch in lagging:
            await sweeps.compacted(branch)
    with capsys.disabled():
        sys.stdout.write(f"\n{BRANCHES:,} branches, {LAGGING} due: {'; '.join(figures)}\n")
