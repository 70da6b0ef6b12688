"""prepare(compact_within=) asks for a compaction only where one would help, waits as long as it was
told at most, and never fails because of it.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from durable_context import Branch, Budget, BudgetExceeded, CompactionPolicy, ContextClient
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import CompactionRequest, CompactionResult
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, SummarizerUnavailable
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.prompts import check_prompt, kinds
from tests.turns import numbered
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, events_of, record
from worker.free_ports import free_ports

AMPLE = Budget(max_tokens=100_000)
TIGHT = Budget(max_tokens=1_500)
LATE = 0.15
"""Seconds a bound may be passed by on a machine that is busy with other tests."""


class AskedRequests(CompactionRequests):
    """The real ones, with a note of each compaction that was asked for."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.asked: list[CompactionRequest] = []
        self.arrived = asyncio.Event()

    async def compact_now(self, request: CompactionRequest, timeout: timedelta) -> CompactionResult:
        self.asked.append(request)
        self.arrived.set()
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
        return orchestration.asking(client, lagging, policy, requests)

    return held


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


async def test_a_prompt_that_fits_whole_or_cannot_gain_reaches_nobody(
    client: ContextClient, asking: Callable[..., Branch], listener: Listener, pool: Pool
):
    requests = AskedRequests(listener.address)
    branch = asking(requests)
    assert await branch.prepare("And now?", budget=AMPLE, compact_within=30)
    hopeless = Budget(max_tokens=100, instructions="word " * 100)
    assert not await branch.prepare("And now?", budget=hopeless, compact_within=30)
    assert not await branch.prepare("word " * 2_000, budget=TIGHT, compact_within=30)
    # At turn 7 the newest 2 are raw, and the first segment ends with turn 6.
    await branch.prepare("?", budget=Budget(max_tokens=250), at_turn=7, compact_within=30)
    await compact_all(pool, branch.branch_uuid, QUICK)
    reduced = await branch.prepare("And now?", budget=Budget(max_tokens=600), compact_within=30)
    assert reduced and reduced.manifest.reductions
    assert requests.asked == [] and listener.held == []


async def test_without_temporal_it_is_the_plain_prompt_and_no_wait(lagging: Branch):
    for budget in (TIGHT, Budget(max_tokens=20)):
        plain = await lagging.prepare("And now?", budget=budget)
        began = time.monotonic()
        assert await lagging.prepare("And now?", budget=budget, compact_within=30) == plain
        assert time.monotonic() - began < LATE


async def test_temporal_that_is_away_costs_no_more_than_the_bound(
    asking: Callable[..., Branch], listener: Listener, orchestration: Orchestration
):
    """Nobody listens; somebody listens and never answers; no worker runs."""
    [port] = free_ports(1)
    plain = await asking(AskedRequests(f"127.0.0.1:{port}")).prepare("And now?", budget=TIGHT)
    for temporal, waits in (
        (f"127.0.0.1:{port}", False),
        (listener.address, True),
        (orchestration.client, True),
    ):
        requests = AskedRequests(temporal, task_queue=orchestration.task_queue)
        branch = asking(requests)
        for bound in (timedelta(seconds=0.4), 0.8):
            began = time.monotonic()
            prepared = await branch.prepare("And now?", budget=TIGHT, compact_within=bound)
            took = time.monotonic() - began
            assert prepared == plain
            longest = bound.total_seconds() if isinstance(bound, timedelta) else bound
            assert took < longest + LATE
            assert not waits or took >= longest
        assert len(requests.asked) == 2


async def test_the_bound_holds_for_the_first_call_of_a_process(
    lagging: Branch, listener: Listener, database_url: str
):
    """It imports Temporal's client, which takes longer than the bound."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        FIRST_CALL,
        database_url,
        listener.address,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    took, longest_step = map(float, output.split())
    assert 0.2 <= took < 0.2 + 2 * LATE
    assert longest_step < LATE


FIRST_CALL = """
import asyncio, sys, time
from durable_context import Budget, ContextClient

async def steps(longest):
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        longest[0] = max(longest[0], time.monotonic() - before)

async def main(url, temporal):
    async with await ContextClient.connect(url, temporal=temporal) as client:
        branch = await client.open_branch("conversation")
        await branch.prepare("And now?", budget=Budget(max_tokens=1500))
        longest = [0.0]
        watching = asyncio.create_task(steps(longest))
        began = time.monotonic()
        await branch.prepare("And now?", budget=Budget(max_tokens=1500), compact_within=0.2)
        sys.stdout.write(f"{time.monotonic() - began} {longest[0]}")
        watching.cancel()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_who_is_cancelled_stops_waiting(
    asking: Callable[..., Branch], requests: AskedRequests
):
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.4):
            await asking(requests).prepare("And now?", budget=TIGHT, compact_within=60)
    assert time.monotonic() - began < 0.4 + LATE
    requests.arrived.clear()
    waiting = asyncio.create_task(
        asking(requests).prepare("And now?", budget=TIGHT, compact_within=60)
    )
    await requests.arrived.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_compaction_that_fails_for_good_is_no_error(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    policy = QUICK.model_copy(update={"degrade_after": timedelta(milliseconds=300)})
    branch = asking(requests, policy)
    plain = await branch.prepare("And now?", budget=TIGHT)
    # The extractive summarizer's own recipe has no stand-in: its failure is final.
    broken = ScriptedSummarizer(*[SummarizerUnavailable("no")] * 50, recipe="extractive/1")
    async with start_worker(broken):
        began = time.monotonic()
        assert await branch.prepare("And now?", budget=TIGHT, compact_within=60) == plain
        assert time.monotonic() - began < 30
    assert [compaction.status for compaction in await branch.compactions()] == ["failed"]
    assert len(requests.asked) == 1


async def test_a_compaction_that_runs_already_is_joined(
    asking: Callable[..., Branch],
    requests: AskedRequests,
    orchestration: Orchestration,
    start_worker: StartWorker,
):
    branch, summarizer = asking(requests), ScriptedSummarizer()
    summarizer.gate.clear()
    async with start_worker(summarizer):
        assert await orchestration.hint(branch)
        await summarizer.arrived.wait()
        waiting = asyncio.create_task(branch.prepare("And now?", budget=TIGHT, compact_within=60))
        await requests.arrived.wait()
        summarizer.gate.set()
        prepared = await waiting
        await orchestration.result(branch)
    assert prepared and prepared.manifest.blocks[0].to_turn == 36
    leaves = [(one.from_turn, one.to_turn) for one in summarizer.asked if one.level == 0]
    assert leaves == [(first, first + 5) for first in range(1, 37, 6)]
    assert len(requests.asked) == 1


async def test_many_callers_that_do_not_fit_compact_once(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch, summarizer = asking(requests), ScriptedSummarizer()
    async with start_worker(summarizer):
        prompts = await asyncio.gather(
            *(branch.prepare(f"{n}?", budget=TIGHT, compact_within=60) for n in range(8))
        )
    for prepared in prompts:
        assert prepared and prepared.manifest.blocks[0].to_turn == 36
    assert len([one for one in summarizer.asked if one.level == 0]) == 6


async def test_what_is_published_when_time_is_up_is_in_the_prompt(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch, summarizer = asking(requests), ScriptedSummarizer()
    second = asyncio.Event()

    def stop_at_the_second() -> None:
        if len(summarizer.asked) == 2:
            summarizer.gate.clear()
            second.set()

    summarizer.before = stop_at_the_second
    async with start_worker(summarizer):
        waiting = asyncio.create_task(branch.prepare("And now?", budget=TIGHT, compact_within=4))
        await second.wait()
        prepared = await waiting
        assert prepared
        check_prompt(prepared, 40, QUICK)
        assert prepared.manifest.blocks[0].to_turn == 6
        summarizer.gate.set()
        await branch.wait_until_compacted(timeout=60)  # it goes on


async def test_temporal_is_asked_once(
    asking: Callable[..., Branch],
    requests: AskedRequests,
    orchestration: Orchestration,
    start_worker: StartWorker,
):
    branch = asking(requests)
    async with start_worker():
        assert not await branch.prepare("And now?", budget=Budget(max_tokens=60), compact_within=30)
        await orchestration.result(branch)
    [history] = await orchestration.chain(branch)
    assert len(events_of(history, "WORKFLOW_EXECUTION_UPDATE_ACCEPTED")) == 1
    assert len(events_of(history, "WORKFLOW_EXECUTION_SIGNALED")) == 0
    assert [one.reason for one in requests.asked] == ["request"]


async def test_a_refused_budget_is_told_once_as_it_was_answered(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch = asking(requests)
    async with start_worker():
        refused = await branch.prepare("?", budget=Budget(max_tokens=60), compact_within=30)
    assert isinstance(refused, BudgetExceeded)
    await branch.record_turn(numbered(41))
    told = [event async for event in branch.events() if event.kind == "over_budget"]
    [event] = told
    assert event.data == {"limit": 60, "required": refused.required, "smallest": refused.smallest}
    assert "checkpoint" in [block.kind for block in refused.blocks]


async def test_no_prompt_is_lost_to_a_compaction(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch = asking(requests)
    refused = await branch.prepare("And now?", budget=Budget(max_tokens=1))
    assert isinstance(refused, BudgetExceeded)
    smallest = Budget(max_tokens=refused.smallest)
    async with start_worker():
        prepared = await branch.prepare("And now?", budget=smallest, compact_within=30)
    assert prepared
    check_prompt(prepared, 40, QUICK)
    assert len(await branch.checkpoints()) == 6


async def test_an_earlier_turn_is_helped_by_what_was_due_before_it(
    asking: Callable[..., Branch], requests: AskedRequests, start_worker: StartWorker
):
    branch = asking(requests)
    async with start_worker():
        prepared = await branch.prepare("?", budget=TIGHT, at_turn=32, compact_within=30)
    assert prepared and prepared.manifest.blocks[0].to_turn == 30
    check_prompt(prepared, 32, QUICK)


async def test_a_fork_that_lags_has_its_own_segments_made(
    lagging: Branch,
    orchestration: Orchestration,
    client: ContextClient,
    start_worker: StartWorker,
):
    held = orchestration.asking(client, await lagging.fork("child", at_turn=38))
    async with start_worker():
        prepared = await held.prepare("And now?", budget=TIGHT, compact_within=30)
    assert prepared and prepared.manifest.blocks[0].to_turn == 36
    assert await lagging.checkpoints() == ()


@pytest.mark.parametrize(
    "wrong", [0, -1, 0.0, True, False, "5", float("nan"), float("inf"), timedelta(0), [], b"1"]
)
async def test_a_wait_that_is_none_is_named(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="compact_within="):
        await branch.prepare("hello", budget=AMPLE, compact_within=wrong)
