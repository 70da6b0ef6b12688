"""Sweeps whose worker dies in the middle, and sweeps whose time is over."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import ContextClient
from durable_context.contracts.sweep import SweepPosition, SweepResult
from durable_context.database import Pool
from durable_context.sweeps.sweeping import BATCH
from tests.sweeps.stalling_worker import SweepWorkerSetup
from tests.sweeps.sweeping import HastySettings, Sweeps
from tests.workflows.killed_workers import ROOT
from tests.workflows.orchestration import QUICK, record

LAGGING = BATCH + 20
PATIENT = QUICK.model_copy(update={"worker_lost_after": timedelta(seconds=3)})
"""So that a busy machine does not lose the second worker, too."""


@asynccontextmanager
async def stalling_worker(setup: SweepWorkerSetup) -> AsyncIterator[None]:
    """Killed at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.sweeps.stalling_worker", setup.model_dump_json()), cwd=ROOT
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def told(handle: "WorkflowHandle[Any, SweepResult]") -> SweepPosition:
    """The first position after the beginning that the server was told."""
    async with asyncio.timeout(30):
        while True:
            pending = (await handle.describe()).raw_description.pending_activities
            payloads = [payload for one in pending for payload in one.heartbeat_details.payloads]
            if payloads:
                [position] = await pydantic_data_converter.decode(payloads, [SweepPosition])
                if position.after:
                    return position


async def begun(sweeps: Sweeps, count: int) -> None:
    """So many compactions run."""
    query = f"TaskQueue = '{sweeps.task_queue}' and WorkflowType = 'Compaction'"
    async with asyncio.timeout(30):
        while (await sweeps.client.count_workflows(query)).count < count:
            pass


async def test_a_sweep_goes_on_from_its_heartbeat_when_its_worker_is_killed(
    client: ContextClient, pool: Pool, sweeps: Sweeps, database_url: str
) -> None:
    for number in range(LAGGING):
        branch = await client.open_branch(f"talk-{number}")
        await record(branch, QUICK.segment_turns + QUICK.keep_raw_turns)
    setup = SweepWorkerSetup(
        database_url=database_url,
        temporal_address=sweeps.client.service_client.config.target_host,
        task_queue=sweeps.task_queue,
        stall_after=BATCH + 5,
    )
    async with stalling_worker(setup):
        handle = await sweeps.begin("catch-up", policy=PATIENT)
        reached = await told(handle)
        await begun(sweeps, BATCH + 5)
    assert reached.counts.started == BATCH
    async with sweeps.worker(pool):
        result = await handle.result()
    # The five of the second batch run already, or are compacted by now; none of the first was
    # asked again.
    counts = result.counts
    assert (counts.scanned, counts.started) == (LAGGING, LAGGING - 5)
    assert counts.running == counts.due - counts.started <= 5


async def test_a_sweep_whose_time_is_over_is_gone_on_with_by_the_schedule_s_next_one(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    for number in range(BATCH + 2):
        branch = await client.open_branch(f"talk-{number}")
        await record(branch, QUICK.segment_turns + QUICK.keep_raw_turns)
    settings = HastySettings.model_validate(sweeps.settings().model_dump())
    async with sweeps.worker(pool, lasts=timedelta(0)):
        await sweeps.schedules.apply(settings)
        await sweeps.schedules.trigger("catch-up")
        first = await sweeps.fired("catch-up")
        await sweeps.schedules.trigger("catch-up")
        second = await sweeps.fired("catch-up", 1)
        await sweeps.schedules.trigger("catch-up")
        third = await sweeps.fired("catch-up", 2)
    assert (first.counts.started, first.left_at != "") == (BATCH, True)
    assert (second.counts.started, second.left_at) == (2, "")
    assert third.counts.scanned >= BATCH
