"""Records histories for replay: `python -m tests.replay.record CASE ...` (or no case for all).

Recorded histories are kept for ever: they stand for runs that are open when a new worker comes up.
Never record a case anew; when the workflow changes, add its new history beside the old ones.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import Branch, ContextClient
from durable_context.artifacts import batch as artifact_batch
from durable_context.compaction.focus import store_focus
from durable_context.compaction.requests import CompactionRequests
from durable_context.database import Pool, create_pool
from durable_context.errors import CompactionFailed, SummarizerUnavailable
from durable_context.migrations import migrate
from durable_context.stored_json import dumps
from tests.compaction.reports import report
from tests.compaction.scripted import ScriptedSummarizer
from tests.replay import rare_cases, sweep_cases, tree_cases
from tests.turns import exchange, numbered
from tests.workflows.orchestration import PATIENCE, QUICK, Orchestration, record
from tests.workflows.test_artifact_workflow import BrokenActivities
from worker.postgres_server import PostgresServer
from worker.settings import EmbeddedSettings
from worker.temporal_binary import ExternalTemporal, find_temporal
from worker.temporal_server import TemporalServer
from workflows.compaction import Compaction

HISTORIES = Path(__file__).parent / "histories"
# Of the machine that recorded, and of no meaning to a replay.
DROPPED = {"identity": "worker", "stackTrace": "", "binaryChecksum": "", "processId": ""}
Case = Callable[[Orchestration, Pool, Branch], Awaitable[WorkflowHistory]]


async def one_pass(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    await record(branch, 8)
    async with at.worker(pool):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def merge(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    await record(branch, 26)
    async with at.worker(pool):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def continued_as_new(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    policy = QUICK.model_copy(update={"passes_per_run": 2})
    await record(branch, 26)
    first = None
    async with at.worker(pool):
        await at.hint(branch, policy)
        first = (await at.handle(branch).describe()).run_id
        await at.compact(branch, policy)
        await at.result(branch)
    handle = at.client.get_workflow_handle(at.handle(branch).id, run_id=first)
    return await handle.fetch_history()


async def retried(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    policy = QUICK.model_copy(update={"degrade_after": timedelta(minutes=2)})
    await record(branch, 8)
    async with at.worker(pool, ScriptedSummarizer(*[SummarizerUnavailable("busy")] * 2)):
        await at.hint(branch, policy)
        await at.result(branch)
    return await at.history(branch)


async def failed(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    await record(branch, 8)
    broken = ScriptedSummarizer(*[SummarizerUnavailable("no")] * 50, recipe="extractive/1")
    async with at.worker(pool, broken):
        try:
            await at.compact(branch)
        except CompactionFailed:
            return await at.history(branch)
    raise AssertionError("it did not fail")


async def settled(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Turns and hints come in during a pass, and somebody asks for the rest at once."""
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1)})
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with at.worker(pool, summarizer):
        await at.hint(branch, policy)
        await summarizer.arrived.wait()
        await record(branch, 6)
        await at.hint(branch, policy)
        summarizer.gate.set()
        await at.result(branch)
    return await at.history(branch)


async def focused(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Somebody asks for the rest with a focus, while a pass without one is under way."""
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with at.worker(pool, summarizer):
        await at.hint(branch)
        await summarizer.arrived.wait()
        await record(branch, 6)
        focus_id = await store_focus(pool, "default", branch.branch_uuid, "the depot")
        request = at.request(branch).model_copy(update={"focus_id": focus_id})
        asked = asyncio.create_task(at.requests.compact_now(request, PATIENCE))
        while (await at.handle(branch).query(Compaction.progress)).requested < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        summarizer.gate.set()
        await asked
        await at.result(branch)
    return await at.history(branch)


async def paused(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """In the middle of two segments."""
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 14)
    async with at.worker(pool, summarizer):
        await at.hint(branch)
        await summarizer.arrived.wait()
        await branch.pause()
        summarizer.gate.set()
        await at.result(branch)
    return await at.history(branch)


async def artifacts(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """More of them than one batch takes."""
    await _record_reports(branch, artifact_batch.BATCH + 2)
    async with at.worker(pool):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def named_artifact(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """No segment is due."""
    await branch.put_artifact(report("Alpha"), name="alpha.txt")
    async with at.worker(pool):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def artifacts_failed(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    await _record_reports(branch, 1)
    async with at.worker(pool, kind=BrokenActivities):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def _record_reports(branch: Branch, count: int) -> None:
    """Eight turns, of which the first has brought so many."""
    asked, *_ = numbered(1)
    calls = [
        message
        for number in range(count)
        for message in exchange(f"call-{number}", report(f"Report{number}", 60), "get_report")
    ]
    await branch.record_turn([asked, *calls])
    await record(branch, 7)


CASES: dict[str, Case] = {
    "one-pass": one_pass,
    "merge": merge,
    "continued-as-new": continued_as_new,
    "retried": retried,
    "failed": failed,
    "settled": settled,
    "focused": focused,
    "paused": paused,
    "artifacts": artifacts,
    "named-artifact": named_artifact,
    "artifacts-failed": artifacts_failed,
    "replanned": rare_cases.replanned,
    "merge-degraded": rare_cases.merge_degraded,
    "indexed": rare_cases.indexed,
    "asked-within": rare_cases.asked_within,
    "rebuild": tree_cases.rebuilt,
    "rebuild-in-vain": tree_cases.rebuilt_in_vain,
    "sweep": sweep_cases.swept,
    "sweep-continued-as-new": sweep_cases.swept_on,
}


async def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        async with PostgresServer(directory / "postgres", durable=False) as postgres:
            await migrate(postgres.database_url)
            source = await find_temporal(EmbeddedSettings.from_env(os.environ), _tell)
            if isinstance(source, ExternalTemporal):
                return await _record(postgres.database_url, source.address, names)
            async with TemporalServer(directory / "temporal", source, ui=False) as temporal:
                await _record(postgres.database_url, temporal.address, names)


async def _record(database_url: str, address: str, names: list[str]) -> None:
    connected = await Client.connect(
        address, data_converter=pydantic_data_converter, identity="client"
    )
    pool = await create_pool(database_url)
    async with pool, await ContextClient.connect(database_url, temporal=None) as client:
        for name in names:
            queue = f"recorded-{uuid4().hex}"
            at = Orchestration(connected, CompactionRequests(connected, task_queue=queue), queue)
            history = await CASES[name](at, pool, await client.open_branch(name))
            _save(name, history)


def _save(name: str, history: WorkflowHistory) -> None:
    target = HISTORIES / f"{name}-{datetime.now(UTC):%Y-%m-%d}.json"
    with target.open("x", encoding="utf-8") as file:
        file.write(dumps(_without_traces(history.to_json_dict())) + "\n")
    _tell(f"{target.name}: {len(history.events)} events")


def _without_traces(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_traces(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    kept = {key: DROPPED.get(key, _without_traces(item)) for key, item in fields.items()}
    if kept.get("kind") == "TASK_QUEUE_KIND_STICKY":
        kept["name"] = "sticky"
    return kept


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or list(CASES)))
    os._exit(0)  # the interpreter's own teardown may die in a process that ran workers
