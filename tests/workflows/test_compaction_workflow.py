"""The compaction workflow end to end: what it makes, what it survives."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from durable_context import Branch, Budget, CompactionPolicy
from durable_context.contracts import (
    COMPACTION_FAILED,
)
from durable_context.database import Pool
from durable_context.errors import CompactionFailed, SummarizerUnavailable
from tests.compacting import compact_once
from tests.compaction.scripted import ScriptedSummarizer
from tests.workflows.orchestration import (
    QUICK,
    Orchestration,
    StartWorker,
    record,
)


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


async def test_a_slow_model_is_not_taken_for_a_lost_worker(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        await asyncio.sleep(2.5 * QUICK.worker_lost_after.total_seconds())
        summarizer.gate.set()
        result = await orchestration.result(branch)
    assert result.attempts == 1 and len(summarizer.asked) == 1


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


async def test_a_frontier_with_a_hole_fails_the_run_and_is_not_built_upon(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await record(branch, 26)
    async with start_worker():
        await orchestration.compact(branch, QUICK.model_copy(update={"keep_raw_turns": 10}))
        await connection.execute("set session_replication_role = replica")  # without triggers
        await connection.execute("delete from durable_context.summaries where from_turn = 7")
        with pytest.raises(CompactionFailed, match="StalePlan"):
            await orchestration.compact(branch)
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6, 12]


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
    indexed = await connection.fetch("select to_turn from durable_context.indexed_documents")
    assert sorted(row[0] for row in indexed) == [6, 12]


async def test_replay_from_the_first_event_at_every_task_changes_nothing(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 26)
    async with start_worker(max_cached_workflows=0):
        await orchestration.hint(branch)
        result = await orchestration.result(branch)
    assert result.passes == 4 and result.checkpoint_turn == 24
