"""The compaction workflow end to end: what runs, what it leaves in the history, what it shows."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHistory
from temporalio.exceptions import ApplicationError

from durable_context import Branch, Budget, CompactionPolicy
from durable_context.contracts import (
    COMPACTION_FAILED,
    PROGRESS,
    TURN_COMMITTED,
    CompactionProgress,
    TurnHint,
    compaction_workflow_id,
)
from durable_context.database import Pool
from durable_context.errors import CompactionFailed, SummarizerUnavailable
from tests.compacting import compact_once
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import PATIENCE, QUICK, Orchestration, StartWorker, record

EVENTS_OF_A_PASS = 40
EVENTS_OF_A_MERGE = 12
PAYLOAD_BYTES = 2_048


async def test_a_hint_compacts_the_branch_and_the_run_closes(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 8)
    async with start_worker():
        assert await orchestration.hint(branch)
        result = await orchestration.result(branch)
    [summary] = await branch.summaries()
    assert result.passes == 1 and result.checkpoint_turn == 6 and result.from_turn == 1
    assert result.tokens_before == summary.covered_tokens
    assert result.tokens_after == summary.token_count
    assert result.recipe == summary.recipe and result.attempts == 1


async def test_a_pass_takes_few_events_and_a_merge_few_more(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    async with start_worker():
        await record(branch, 8)
        await orchestration.hint(branch)
        await orchestration.result(branch)
        plain = len((await orchestration.history(branch)).events)
        await record(branch, 12)
        await orchestration.compact(branch)
        await record(branch, 6)
        await orchestration.hint(branch)
        assert (await orchestration.result(branch)).checkpoint_turn == 24
        merging = len((await orchestration.history(branch)).events)
    assert plain <= EVENTS_OF_A_PASS
    assert merging - plain <= EVENTS_OF_A_MERGE


async def test_no_payload_of_a_history_holds_content_or_is_large(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 26)
    async with start_worker():
        await orchestration.hint(branch)
        await orchestration.result(branch)
    history = await orchestration.history(branch)
    sizes = [len(payload) for payload in _payloads(history)]
    assert sizes and max(sizes) < PAYLOAD_BYTES
    text = history.to_json()
    assert "Rotterdam" not in text and "SHP-" not in text


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


async def test_a_run_whose_plan_was_overtaken_plans_again(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker, pool: Pool
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 14)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        assert await compact_once(pool, branch.branch_uuid, CompactionPolicy(segment_turns=4))
        summarizer.gate.set()
        assert (await orchestration.result(branch)).checkpoint_turn == 10
    leaves = [(node.from_turn, node.to_turn) for node in await branch.summaries()]
    assert leaves == [(1, 4), (5, 10)]
    statuses = {(c.from_turn, c.to_turn): c.status for c in await branch.compactions()}
    assert statuses == {(1, 4): "completed", (1, 6): "failed", (5, 10): "completed"}


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
    started, first_task = history.events[0], _events(history, "WORKFLOW_TASK_SCHEDULED")[0]
    waited = first_task.event_time.ToDatetime() - started.event_time.ToDatetime()
    assert waited >= timedelta(seconds=1.4)
    assert len(_events(history, "WORKFLOW_EXECUTION_SIGNALED")) == 5
    assert len(_events(history, "ACTIVITY_TASK_SCHEDULED")) == 4


async def test_compact_now_does_not_wait_for_the_debounce(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    policy = QUICK.model_copy(update={"debounce": timedelta(minutes=10)})
    await record(branch, 8)
    async with start_worker():
        await orchestration.hint(branch, policy)
        result = await orchestration.compact(branch, policy)
    assert result.checkpoint_turn == 6


async def test_a_failure_that_passes_is_retried(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer(SummarizerUnavailable("busy"), SummarizerUnavailable("busy"))
    policy = QUICK.model_copy(update={"degrade_after": timedelta(minutes=5)})
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch, policy)
        result = await orchestration.result(branch)
    assert result.attempts == 3 and result.degraded == 0
    [compaction] = await branch.compactions()
    assert compaction.attempts == 3 and compaction.status == "completed"


async def test_the_time_a_provider_asks_for_is_kept(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer(SummarizerUnavailable("busy", retry_after=1.5))
    policy = QUICK.model_copy(update={"degrade_after": timedelta(minutes=5)})
    await record(branch, 8)
    async with start_worker(summarizer):
        before = asyncio.get_running_loop().time()
        await orchestration.compact(branch, policy)
        assert asyncio.get_running_loop().time() - before >= 1.5


async def test_a_failed_run_publishes_nothing_and_the_next_one_starts_clean(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 8)
    before = await branch.inspect()
    prompt = await branch.prepare("And now?", budget=Budget(max_tokens=8_000))
    # The extractive summarizer's own recipe has no stand-in: its failure is final.
    broken = ScriptedSummarizer(*[SummarizerUnavailable("no")] * 50, recipe="extractive/1")
    policy = QUICK.model_copy(update={"degrade_after": timedelta(milliseconds=300)})
    async with start_worker(broken):
        with pytest.raises(CompactionFailed, match="SummarizerRejected"):
            await orchestration.compact(branch, policy)
        with pytest.raises(WorkflowFailureError) as failure:
            await orchestration.result(branch)
    cause = failure.value.cause
    assert isinstance(cause, ApplicationError) and cause.type == COMPACTION_FAILED
    after = await branch.inspect()
    assert (after.checkpoint, after.frontier, after.tail) == (None, (), before.tail)
    assert await branch.prepare("And now?", budget=Budget(max_tokens=8_000)) == prompt
    [failed] = after.compactions
    assert failed.status == "failed" and failed.error
    async with start_worker():
        assert (await orchestration.compact(branch)).checkpoint_turn == 6


async def test_an_index_that_fails_does_not_fail_the_run(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await record(branch, 8)
    await connection.execute("alter table durable_context.postings rename to postings_away")
    async with start_worker():
        result = await orchestration.compact(branch)
        assert result.checkpoint_turn == 6
        await connection.execute("alter table durable_context.postings_away rename to postings")
        await record(branch, 6)
        await orchestration.compact(branch)
    indexed = await connection.fetch("select to_turn from durable_context.indexed_leaves")
    assert sorted(row[0] for row in indexed) == [6, 12]


async def test_operators_see_what_a_run_does_and_did(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        handle = orchestration.handle(branch)
        progress = await handle.query(PROGRESS, result_type=CompactionProgress)
        assert progress.phase.startswith("summarize turns 1\u20136 (")
        summarizer.gate.set()
        await orchestration.result(branch)
        details = await _current_details(orchestration, branch)
        description = await handle.describe()
    assert description.status is WorkflowExecutionStatus.COMPLETED
    assert await description.static_summary() == f"compact {branch.branch_uuid}"
    [summary] = await branch.summaries()
    assert "**done**" in details
    assert f"{summary.covered_tokens:,} \u2192 {summary.token_count:,} tokens" in details
    assert "scripted/1" in details
    history = await orchestration.history(branch)
    shown = [event.user_metadata.summary.data.decode() for event in history.events]
    assert any(f"summarize turns 1\u20136 ({summary.covered_tokens:,} tokens)" in s for s in shown)


async def test_search_attributes_find_the_runs_of_a_branch(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 8)
    async with start_worker():
        await orchestration.hint(branch)
        await orchestration.result(branch)
    description = await orchestration.handle(branch).describe()
    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert found["CompactionTenant"] == "default"
    assert found["CompactionBranch"] == str(branch.branch_uuid)
    assert found["CompactionReason"] == "turn"


async def test_a_run_that_finds_nothing_due_closes(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 3)
    async with start_worker():
        result = await orchestration.compact(branch)
        assert result.passes == 0 and result.checkpoint_turn == 0
        await orchestration.result(branch)


async def test_replay_from_the_first_event_at_every_task_changes_nothing(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 26)
    async with start_worker(max_cached_workflows=0):
        await orchestration.hint(branch)
        result = await orchestration.result(branch)
    assert result.passes == 4 and result.checkpoint_turn == 24


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


def _events(history: WorkflowHistory, name: str) -> list:
    kind = EventType.Value(f"EVENT_TYPE_{name}")
    return [event for event in history.events if event.event_type == kind]


def _payloads(history: WorkflowHistory) -> list[bytes]:
    """Every payload, wherever in an event it stands."""
    from google.protobuf.message import Message
    from temporalio.api.common.v1 import Payload

    def of(message: Message) -> list[bytes]:
        if isinstance(message, Payload):
            return [message.data]
        found: list[bytes] = []
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                values = [item for item in value.values() if isinstance(item, Message)]
            else:
                values = value if field.is_repeated else [value]
            for item in values:
                found += of(item)
        return found

    return [payload for event in history.events for payload in of(event)]


async def _current_details(orchestration: Orchestration, branch: Branch) -> str:
    from temporalio.api.sdk.v1 import WorkflowMetadata

    metadata = await orchestration.handle(branch).query(
        "__temporal_workflow_metadata", result_type=WorkflowMetadata
    )
    return metadata.current_details
