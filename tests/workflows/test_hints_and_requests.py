"""What hints and requests lead to, whenever they come."""

import asyncio
from datetime import timedelta

import asyncpg

from durable_context import Branch
from durable_context.contracts import (
    TURN_COMMITTED,
    TurnHint,
    compaction_workflow_id,
)
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import (
    PATIENCE,
    QUICK,
    Orchestration,
    StartWorker,
    events_of,
    record,
)

EVENTS_OF_A_PASS = 40


async def test_hints_of_a_burst_wait_for_the_debounce_together(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1.5)})
    await record(branch, 8)
    async with start_worker():
        for _ in range(5):
            assert await orchestration.hint(branch, policy)
        await orchestration.result(branch)
    history = await orchestration.history(branch)
    started, first_task = history.events[0], events_of(history, "WORKFLOW_TASK_SCHEDULED")[0]
    waited = first_task.event_time.ToDatetime() - started.event_time.ToDatetime()
    assert waited >= timedelta(seconds=1.4)
    assert len(events_of(history, "WORKFLOW_EXECUTION_SIGNALED")) == 5
    assert len(events_of(history, "ACTIVITY_TASK_SCHEDULED")) == 4


async def test_compact_now_does_not_wait_for_the_debounce(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(minutes=10)})
    await record(branch, 8)
    async with start_worker():
        await orchestration.hint(branch, policy)
        result = await orchestration.compact(branch, policy)
    assert result.checkpoint_turn == 6


async def test_between_passes_hints_settle_unless_somebody_waits(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(minutes=10)})
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        first = asyncio.create_task(orchestration.compact(branch, policy))
        await summarizer.arrived.wait()
        await orchestration.hint(branch, policy)
        summarizer.gate.set()
        assert (await first).checkpoint_turn == 6
        await record(branch, 6)
        assert (await orchestration.compact(branch, policy)).checkpoint_turn == 12
        await orchestration.result(branch)
    assert len(events_of(await orchestration.history(branch), "TIMER_STARTED")) == 1


async def test_many_hints_make_one_summary(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    await record(branch, 8)
    async with start_worker(summarizer):
        await asyncio.gather(*(orchestration.hint(branch) for _ in range(20)))
        await orchestration.result(branch)
        await orchestration.hint(branch)
        await orchestration.result(branch)
    assert len(summarizer.asked) == 1
    assert len(await branch.checkpoints()) == 1
    assert [compaction.status for compaction in await branch.compactions()] == ["completed"]


async def test_a_hint_during_a_pass_leads_to_another_look(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        await record(branch, 6)
        await orchestration.hint(branch)
        summarizer.gate.set()
        result = await orchestration.result(branch)
    assert result.checkpoint_turn == 12
    assert [(one.from_turn, one.to_turn) for one in summarizer.asked] == [(1, 6), (7, 12)]


async def test_a_hint_after_the_last_look_at_the_database_is_not_lost(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await record(branch, 8)
    async with start_worker():
        async with connection.transaction():
            await connection.execute("lock table durable_context.postings")
            await orchestration.hint(branch)
            await branch.wait_until_compacted(timeout=PATIENCE)
            # Committed, not yet indexed: the run has looked for more work and found none.
            await record(branch, 6)
            await orchestration.hint(branch)
        assert (await orchestration.result(branch)).checkpoint_turn == 12


async def test_a_signal_by_its_wire_name_reaches_a_delayed_run(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1)})
    await record(branch, 8)
    async with start_worker():
        await orchestration.hint(branch, policy)
        handle = orchestration.client.get_workflow_handle(
            compaction_workflow_id(branch.branch_uuid)
        )
        await handle.signal(TURN_COMMITTED, TurnHint(turn_no=8))
        assert (await orchestration.result(branch)).passes == 1


async def test_compact_now_waits_until_nothing_is_due(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 40)
    async with start_worker():
        result = await orchestration.compact(branch)
    assert result.checkpoint_turn == 36 and not result.more
    assert (await branch.inspect()).lag.turns < 6


async def test_compact_now_outlasts_runs_that_continue_as_new(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"passes_per_run": 2})
    await record(branch, 44)
    async with start_worker():
        result = await orchestration.compact(branch, policy)
        assert result.checkpoint_turn == 42 and not result.more
        await orchestration.result(branch)
        runs = await orchestration.chain(branch)
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [*range(6, 43, 6)]
    assert len(runs) == 4
    assert all(len(run.events) <= 2 * EVENTS_OF_A_PASS for run in runs)


async def test_a_hinted_run_goes_on_in_new_runs_until_nothing_is_due(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"passes_per_run": 2})
    await record(branch, 32)
    async with start_worker():
        await orchestration.hint(branch, policy)
        assert (await orchestration.result(branch)).checkpoint_turn == 30
        assert len(await orchestration.chain(branch)) == 3


async def test_a_run_that_finds_nothing_due_closes(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 3)
    async with start_worker():
        result = await orchestration.compact(branch)
        assert result.passes == 0 and result.checkpoint_turn == 0
        await orchestration.result(branch)
