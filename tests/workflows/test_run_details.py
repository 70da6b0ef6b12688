"""What operators read of a run without our tools: details, result, search attributes."""

import pytest
from temporalio.client import Client

from durable_context import Branch, ContextClient
from durable_context.contracts import (
    PROGRESS,
    CompactionRequest,
    compaction_workflow_id,
)
from durable_context.contracts.rebuild import rebuild_workflow_id
from durable_context.contracts.sweep import SweepPosition
from durable_context.database import Pool
from durable_context.errors import CompactionFailed, SummarizerUnavailable
from durable_context.summarizers.model import ModelSummarizer
from tests.compaction.scripted import ScriptedSummarizer
from tests.model_server import ModelServer
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import PATIENCE, QUICK, Orchestration, StartWorker, record
from tests.workflows.run_pages import attributes, metadata, phase_and_rows

EXPOSING = QUICK.model_copy(update={"expose_ids": True})


async def test_a_table_tells_what_a_run_is_at_and_in_the_end_what_it_did(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        handle = orchestration.handle(branch)
        phase, during = await phase_and_rows(handle)
        summarizer.gate.set()
        result = await orchestration.result(branch)
        end, after = await phase_and_rows(handle)
    [summary] = await branch.summaries()
    assert phase == f"summarize turns 1–6 with scripted/1, {summary.covered_tokens:,} tokens"
    assert during | {"now": "turns 1–6", "nodes made": "0 of 1", "reason": "turn"} == during
    assert end == "done"
    assert (
        after
        | {
            "reason": "turn",
            "last segment": "turns 1–6",
            "tokens before, after": f"{summary.covered_tokens:,} → {summary.token_count:,}",
            "recipe": "scripted/1",
            "segments": "1",
            "attempts": "1",
            "degraded": "0",
            "tokens of models": "500 read, 20 written",
            "cost": "not known",
            "checkpoint": "turn 6",
        }
        == after
    )
    assert after["elapsed"].endswith(" s") and "now" not in after
    assert (result.spending.input_tokens, result.spending.price) == (500, None)


async def test_the_price_of_a_run_is_that_of_its_calls(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker, model: ModelServer
) -> None:
    summarizer = ModelSummarizer("openai:gpt-4o-mini", base_url=model.base_url, api_key="made-up")
    await record(branch, 14)
    async with start_worker(summarizer):
        result = await orchestration.compact(branch)
        _, rows = await phase_and_rows(orchestration.handle(branch))
    made = await branch.compactions()
    assert result.passes == len(made) == 2
    assert result.spending.price == sum(one.price or 0 for one in made) > 0
    assert result.spending.input_tokens == sum(one.input_tokens for one in made) > 0
    assert rows["cost"] == f"${result.spending.price:.4f}"


async def test_attempts_that_failed_and_what_is_degraded_are_in_the_table(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    failing = ScriptedSummarizer(*[SummarizerUnavailable("busy")] * 50)
    await record(branch, 8)
    async with start_worker(failing):
        await orchestration.hint(branch)
        result = await orchestration.result(branch)
        _, rows = await phase_and_rows(orchestration.handle(branch))
    assert result.attempts > 1 and rows["attempts"] == f"{result.attempts:,}"
    assert (rows["degraded"], rows["made by"]) == ("1", "extractive/1")


async def test_a_failed_run_says_where_it_failed_and_why(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    broken = ScriptedSummarizer(*[SummarizerUnavailable("no")] * 50, recipe="extractive/1")
    await record(branch, 8)
    async with start_worker(broken):
        with pytest.raises(CompactionFailed):
            await orchestration.compact(branch)
        phase, rows = await phase_and_rows(orchestration.handle(branch))
    assert phase.startswith("failed: summarize turns 1–6 with extractive/1")
    assert rows["error"].startswith("summarize: SummarizerRejected: ")


async def test_a_canceled_run_says_so(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        handle = orchestration.handle(branch)
        await handle.cancel()
        with pytest.raises(Exception, match="Workflow execution failed"):
            await handle.result()
        phase, _ = await phase_and_rows(handle)
        summarizer.gate.set()
    assert phase.startswith("canceled: summarize turns 1–6")


async def test_a_rebuild_has_a_table_and_a_price_too(
    branch: Branch, client: ContextClient, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 14)
    async with start_worker(ScriptedSummarizer()):
        await orchestration.compact(branch)
        result = await orchestration.asking(client, branch).rebuild(timeout=PATIENCE)
        handle = orchestration.client.get_workflow_handle(rebuild_workflow_id(branch.branch_uuid))
        phase, rows = await phase_and_rows(handle)
    assert phase == "done"
    assert (
        rows
        | {
            "reason": "rebuild",
            "turns": "1–newest checkpoint",
            "nodes replaced": "2",
            "tokens of models": "1,000 read, 40 written",
            "cost": "not known",
            "checkpoint": "turn 12",
        }
        == rows
    )
    assert result.spending.output_tokens == 40


async def test_a_sweep_has_a_table_and_tells_how_far_it_is(
    branch: Branch, temporal: Client, orchestration: Orchestration, pool: Pool
) -> None:
    await record(branch, 8)
    sweeps = Sweeps(temporal, orchestration.task_queue)
    async with sweeps.worker(pool):
        handle = await sweeps.begin("catch-up", policy=EXPOSING)
        result = await handle.result()
        phase, rows = await phase_and_rows(handle)
        position = await handle.query(PROGRESS, result_type=SweepPosition)
        await sweeps.compacted(branch)
    assert phase == "done" and position.is_done
    assert rows | {"sweep": "catch-up", "started": "1"} == rows
    assert rows["scanned"] == f"{result.counts.scanned:,}"
    found = await attributes(orchestration.handle(branch))
    assert found | {"CompactionBranch": "conversation/main", "CompactionReason": "sweep"} == found


async def test_queries_signals_and_updates_say_what_they_are_for(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    async with start_worker():
        await orchestration.compact(branch)
        known = (await metadata(orchestration.handle(branch))).definition
    own = [*known.query_definitions, *known.signal_definitions, *known.update_definitions]
    described = {one.name: one.description for one in own if not one.name.startswith("__")}
    assert set(described) == {"progress", "turn_committed", "compact_now"}
    assert all(described.values())


async def test_outside_ids_are_shown_only_where_the_policy_says_so(
    branch: Branch, client: ContextClient, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await record(branch, 8)
    shy, open_ = (orchestration.asking(client, branch, policy) for policy in (QUICK, EXPOSING))
    handle = orchestration.handle(branch)
    async with start_worker():
        await shy.compact(timeout=PATIENCE)
        hidden = await handle.describe(), await attributes(handle)
        await record(branch, 6)
        await open_.compact(timeout=PATIENCE)
        shown = await handle.describe(), await attributes(handle)
    assert await hidden[0].static_summary() == f"compact {branch.branch_uuid}"
    assert (
        hidden[1]
        | {
            "CompactionBranch": str(branch.branch_uuid),
            "CompactionReason": "request",
        }
        == hidden[1]
    )
    assert not {"CompactionTenant", "CompactionConversation"} & set(hidden[1])
    assert await shown[0].static_summary() == "compact conversation/main"
    assert (
        shown[1]
        | {
            "CompactionTenant": "default",
            "CompactionConversation": "conversation",
            "CompactionBranch": "conversation/main",
        }
        == shown[1]
    )


async def test_payloads_stay_small_with_the_longest_ids(
    client: ContextClient, orchestration: Orchestration
) -> None:
    branch = await client.open_branch("ü" * 250, "ö" * 250)
    asking = orchestration.asking(client, branch, EXPOSING)
    request: CompactionRequest = asking._request("turn").model_copy(update={"tenant": "t" * 500})
    assert len(request.model_dump_json().encode()) < 2_048
    assert await orchestration.requests.hint(request, 1, QUICK.debounce)
    handle = orchestration.client.get_workflow_handle(compaction_workflow_id(branch.branch_uuid))
    found = await attributes(handle)
    assert found["CompactionConversation"] == "ü" * 60
    await handle.terminate()
