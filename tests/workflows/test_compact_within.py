"""prepare(compact_within=) asks for a compaction only where one would help, waits as long as it was
told at most, and never fails because of it.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest
from temporalio.client import WorkflowExecutionStatus

from durable_context import Branch, Budget, BudgetExceeded, CompactionPolicy, ContextClient
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import CompactionRequest, CompactionResult, compaction_workflow_id
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, SummarizerRejected
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.prompts import check_prompt, kinds
from tests.turns import chat, numbered
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, events_of, record
from worker.free_ports import free_ports

AMPLE = Budget(max_tokens=100_000)
TIGHT = Budget(max_tokens=1_500)
LATE = 0.15
"""Seconds a bound may be passed by on a machine that is busy with other tests."""
Within: TypeAlias = Callable[[object], Awaitable[Branch]]


class AskedRequests(CompactionRequests):
    """The real ones, with a note of each compaction that was asked for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.asked: list[CompactionRequest] = []

    async def compact_now(self, request: CompactionRequest, timeout: timedelta) -> CompactionResult:
        self.asked.append(request)
        return await super().compact_now(request, timeout)


class Listener:
    """Takes connections and never answers."""

    def __init__(self) -> None:
        self.held: list[asyncio.StreamWriter] = []
        self.address = ""

    async def hold(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.held.append(writer)


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.hold, "127.0.0.1", 0)
    listener.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield listener
    server.close()
    for writer in listener.held:
        writer.close()


@pytest.fixture
async def requests(orchestration: Orchestration) -> AskedRequests:
    return AskedRequests(orchestration.client, task_queue=orchestration.task_queue)


@pytest.fixture
async def lagging(branch: Branch) -> Branch:
    """40 turns, recorded by a client without Temporal."""
    await record(branch, 40)
    return branch


@pytest.fixture
def asking(
    lagging: Branch, orchestration: Orchestration, client: ContextClient
) -> Callable[..., Branch]:
    """The lagging branch, as a client with Temporal holds it."""

    def held(requests: CompactionRequests, policy: CompactionPolicy = QUICK) -> Branch:
        shared = client._resources._replace(requests=requests)
        return _Tested(shared, lagging, policy, orchestration.summary_task_queue)

    return held


class _Tested(Branch):
    """A branch whose compactions summarize on the test's own queue."""

    def __init__(self, shared: Any, branch: Branch, policy: CompactionPolicy, queue: str) -> None:
        super().__init__(shared, branch.conversation_id, branch.branch_id, branch._row, policy)
        self._queue = queue

    def _request(self, reason: Any) -> CompactionRequest:
        request = super()._request(reason)
        return request.model_copy(update={"summary_task_queue": self._queue})


async def test_a_prompt_that_does_not_fit_is_made_again_after_a_compaction(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch = asking(requests)
    before = await branch.prepare("And now?", budget=TIGHT)
    assert before and "digests_joined" in [r.kind for r in before.manifest.reductions]
    async with start_worker():
        after = await branch.prepare("And now?", budget=TIGHT, compact_within=30)
    assert after
    check_prompt(after, 40, QUICK)
    assert kinds(after)[0] == "checkpoint"
    assert after.manifest.blocks[0].to_turn == 36
    assert "digests_joined" not in [r.kind for r in after.manifest.reductions]
    assert len(requests.asked) == 1
