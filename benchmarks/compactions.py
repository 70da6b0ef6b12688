"""Compactions beside bare workflows with as many activities: how many a second, and how long the
histories are.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from benchmarks.bare_workflow import BARE_TASK_QUEUE, Bare
from benchmarks.corpus import Corpus
from benchmarks.database import TENANT, Report, compact, record, silence
from benchmarks.measure import seconds_of
from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.contracts import compaction_workflow_id
from durable_context.database import Pool, create_pool
from worker.child_process import ChildProcess, Command
from worker.embedded import EmbeddedStack
from worker.settings import Settings, with_temporal

POLICY = CompactionPolicy(debounce=timedelta(0))
SEGMENT_DUE = POLICY.segment_turns + POLICY.keep_raw_turns
CHECKOUT = Path(__file__).parent.parent
LONGEST = timedelta(minutes=2)


@dataclass(frozen=True)
class Throughput:
    """Medians over the repetitions; each ran our branches and as many bare workflows."""

    branches: int
    repetitions: int
    ours_per_second: float
    bare_per_second: float
    ratio: float


@dataclass(frozen=True)
class History:
    """Of a run with one pass. `started_by` is "hint", as after a turn, or "compact()"."""

    started_by: str
    merges: int
    events: int
    size: int
    is_compaction: bool = True


@dataclass(frozen=True)
class Compactions:
    """A whole stack: `silent` records without hints, `asking` tells Temporal of what it records."""

    temporal: Client
    silent: ContextClient
    asking: ContextClient
    pool: Pool
    corpus: Corpus

    async def throughput(self, branches: int, repetitions: int, report: Report) -> Throughput:
        # The first round opens the workers' connections, which is not what a second of work costs.
        await self._ours(branches)
        await self._bare(branches)
        ours: list[float] = []
        bare: list[float] = []
        for repetition in range(1, repetitions + 1):
            ours.append(branches / await self._ours(branches))
            bare.append(branches / await self._bare(branches))
            report(
                f"repetition {repetition}: {ours[-1]:.1f} compactions and"
                f" {bare[-1]:.1f} bare workflows a second"
            )
        ratio = median(mine / other for mine, other in zip(ours, bare, strict=True))
        return Throughput(branches, repetitions, median(ours), median(bare), ratio)

    async def histories(self) -> list[History]:
        found = [
            await self._history(hinted, merges) for hinted in (True, False) for merges in (0, 1)
        ]
        bare = await _history_of(await self._start_bare(), "start (bare workflow)", 0)
        return [*found, replace(bare, is_compaction=False)]

    async def _ours(self, count: int) -> float:
        """Seconds from asking for all compactions until the last is done."""
        branches = [await self._recorded(SEGMENT_DUE) for _ in range(count)]
        return await seconds_of(asyncio.gather(*(b.compact(timeout=LONGEST) for b in branches)))

    async def _bare(self, count: int) -> float:
        return await seconds_of(asyncio.gather(*(self._run_bare() for _ in range(count))))

    async def _run_bare(self) -> None:
        await (await self._start_bare()).result()

    async def _start_bare(self) -> WorkflowHandle[Bare, int]:
        name = str(uuid4())
        return await self.temporal.start_workflow(
            Bare.run,
            name,
            id=f"bare-{name}",
            task_queue=BARE_TASK_QUEUE,
            execution_timeout=LONGEST,
        )

    async def _history(self, hinted: bool, merges: int) -> History:
        """Of a run with one pass; a merge takes earlier leaves, which are made without Temporal."""
        before = (POLICY.fan_out - 1) * POLICY.segment_turns if merges else 0
        branch = await self._recorded(before + POLICY.keep_raw_turns)
        await compact(self.pool, branch, silence)
        for number in range(1, POLICY.segment_turns + 1):
            client = self.asking if hinted and number == POLICY.segment_turns else self.silent
            hinting = await client.find_branch(branch.conversation_id)
            await hinting.record_turn(self.corpus.turn(before + number))
        if not hinted:
            await branch.compact(timeout=LONGEST)
        await branch.wait_until_compacted(timeout=LONGEST)
        handle = self.temporal.get_workflow_handle(compaction_workflow_id(branch.branch_uuid))
        return await _history_of(handle, "hint" if hinted else "compact()", merges)

    async def _recorded(self, turns: int) -> Branch:
        """A new branch that can be compacted, with turns that nobody was told of."""
        name = str(uuid4())
        await record(await self.silent.open_branch(name), self.corpus, turns, silence)
        return await self.asking.find_branch(name)


@asynccontextmanager
async def compactions_stack(
    directory: Path, corpus: Corpus, report: Report
) -> AsyncGenerator[Compactions]:
    async with EmbeddedStack(directory, ui=False, report=report) as stack:
        environment = _environment(stack)
        settings = Settings.from_env(environment)
        temporal = await Client.connect(**settings.temporal, data_converter=pydantic_data_converter)
        url = f"{stack.database_url}?synchronous_commit=off"
        async with (
            _bare_worker(directory, environment),
            await create_pool(url) as pool,
            await ContextClient.connect(url, temporal=None, policy=POLICY, tenant=TENANT) as silent,
            await ContextClient.connect(
                url, temporal=temporal, policy=POLICY, tenant=TENANT
            ) as asking,
        ):
            yield Compactions(temporal, silent, asking, pool, corpus)


def _environment(stack: EmbeddedStack) -> dict[str, str]:
    """The one the stack's own worker has."""
    environment = dict(os.environ)
    if not environment.get("TEMPORAL_ADDRESS"):
        environment = with_temporal(environment, stack.temporal_address, stack.temporal_namespace)
    return environment | {"DURABLE_CONTEXT_DATABASE_URL": stack.database_url}


@asynccontextmanager
async def _bare_worker(directory: Path, environment: dict[str, str]) -> AsyncGenerator[None]:
    command = Command(
        [sys.executable, "-m", "benchmarks.bare_workflow"], environment, directory=CHECKOUT
    )
    child = ChildProcess("bare-worker", command, directory=directory)
    try:
        await child.start()
        yield
    finally:
        await child.stop()


async def _history_of(handle: WorkflowHandle[Any, Any], started_by: str, merges: int) -> History:
    await handle.result()
    info = (await handle.describe()).raw_description.workflow_execution_info
    return History(started_by, merges, info.history_length, info.history_size_bytes)
