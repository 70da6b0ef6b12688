"""Artifacts of turns end to end: summarized in a step of their own, which holds nothing else up."""

import asyncpg
import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.compaction import CompactionActivities
from durable_context import Branch
from durable_context.artifacts import batch as batch_module
from durable_context.contracts import (
    PROGRESS,
    SUMMARIZE_ARTIFACTS,
    ArtifactsRequest,
    ArtifactsResult,
    CompactionProgress,
)
from durable_context.errors import SummarizerUnavailable
from tests.compaction.reports import BURIED, report, reporting
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_artifact_compaction import AwayStore
from tests.model_server import ModelServer, answers, held
from tests.workflows.killed_workers import worker_process
from tests.workflows.models import model_summarizer
from tests.workflows.orchestration import Orchestration, StartWorker, events_of, record
from tests.workflows.test_histories import PAYLOAD_BYTES, payloads
from tests.workflows.worker_process import WorkerSetup


class BrokenActivities(CompactionActivities):
    """The real ones, but for artifacts, which fail for good."""

    @activity.defn(name=SUMMARIZE_ARTIFACTS)
    async def summarize_artifacts(self, request: ArtifactsRequest) -> ArtifactsResult:
        raise ApplicationError("made to fail", non_retryable=True)


async def test_artifacts_are_summarized_and_indexed_with_their_turns(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await _record_reports(branch, 2)
    async with start_worker():
        result = await orchestration.compact(branch)
    assert (result.checkpoint_turn, result.artifacts, result.degraded) == (6, 2, 0)
    artifacts = await branch.artifacts()
    assert all(artifact.headline for artifact in artifacts)
    [checkpoint] = await branch.checkpoints()
    assert checkpoint.artifact_handles == tuple(artifact.handle for artifact in artifacts)
    found = await connection.fetch(
        "select to_turn from durable_context.postings where term = $1 and artifact_no > 0"
        " order by to_turn",
        BURIED.lower(),
    )
    assert [row["to_turn"] for row in found] == [1, 2]


async def test_a_named_artifact_is_taken_up_though_no_segment_is_due(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await branch.put_artifact(report("Alpha"), name="alpha.txt")
    async with start_worker():
        result = await orchestration.compact(branch)
        assert (result.passes, result.artifacts) == (0, 1)
        await orchestration.result(branch)
        assert (await orchestration.compact(branch)).artifacts == 0
    [artifact] = await branch.artifacts()
    assert artifact.summary is not None


async def test_no_payload_holds_anything_of_an_artifact(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_module, "BATCH", 2)
    await _record_reports(branch, 5)
    async with start_worker():
        await orchestration.hint(branch)
        assert (await orchestration.result(branch)).artifacts == 5
    history = await orchestration.history(branch)
    steps = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in events_of(history, "ACTIVITY_TASK_SCHEDULED")
    ]
    batches = [SUMMARIZE_ARTIFACTS] * 3
    assert steps == ["plan", *batches, "summarize", "commit", "index"]
    assert max(len(payload) for payload in payloads(history)) < PAYLOAD_BYTES
    text = history.to_json()
    assert "Report1" not in text and "art_" not in text and "container" not in text


async def test_a_model_that_is_away_degrades_artifacts_as_it_does_turns(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    away = ScriptedSummarizer(*[SummarizerUnavailable("busy") for _ in range(200)])
    await _record_reports(branch, 3)
    async with start_worker(away):
        result = await orchestration.compact(branch)
    assert (result.checkpoint_turn, result.artifacts, result.degraded) == (6, 3, 4)


async def test_artifacts_that_nobody_can_read_hold_no_turn_up(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await _record_reports(branch, 1)
    async with start_worker(contents=AwayStore()):
        result = await orchestration.compact(branch)
        assert (result.checkpoint_turn, result.artifacts) == (6, 0)
        await orchestration.result(branch)
    async with start_worker():
        result = await orchestration.compact(branch)
    assert (result.passes, result.artifacts) == (0, 1)


async def test_a_step_for_artifacts_that_fails_for_good_is_left_out(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    await _record_reports(branch, 1)
    async with start_worker(kind=BrokenActivities):
        result = await orchestration.compact(branch)
        await orchestration.result(branch)
    assert (result.checkpoint_turn, result.passes, result.artifacts) == (6, 1, 0)


async def test_a_worker_killed_between_artifacts_has_paid_for_those_that_are_done(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    setup: WorkerSetup,
    model: ModelServer,
) -> None:
    model.script(answers(), held())
    await _record_reports(branch, 3)
    async with worker_process(setup.model_copy(update={"model_url": model.base_url})) as worker:
        await orchestration.hint(branch)
        await model.request_arrived(2)
        await worker.kill()
    model.release()
    done = [artifact.summary is not None for artifact in await branch.artifacts()]
    assert done == [True, False, False]
    async with start_worker(model_summarizer(model.base_url)):
        result = await orchestration.result(branch)
    assert result.checkpoint_turn == 6
    asked = [len(_asked_of(model, name)) for name in ("Report1", "Report2", "Report3")]
    assert asked == [1, 2, 1]
    assert all(artifact.summary for artifact in await branch.artifacts())


async def test_operators_see_artifacts_that_are_worked_on(
    branch: Branch, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await _record_reports(branch, 2)
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        progress = await orchestration.handle(branch).query(
            PROGRESS, result_type=CompactionProgress
        )
        assert progress.phase == "summarizing artifacts"
        summarizer.gate.set()
        await orchestration.result(branch)
    history = await orchestration.history(branch)
    shown = [event.user_metadata.summary.data.decode() for event in history.events]
    assert any("summarize artifacts with scripted/1, 2 due" in text for text in shown)


def _asked_of(model: ModelServer, name: str) -> list[str]:
    return [
        request.text
        for request in model.requests
        if "A document: " in request.text and f"{name} row 1:" in request.text
    ]


async def _record_reports(branch: Branch, count: int) -> None:
    """Eight turns, the first of which have a report."""
    for turn in range(1, count + 1):
        await branch.record_turn(reporting(turn, report(f"Report{turn}")))
    await record(branch, 8 - count)
