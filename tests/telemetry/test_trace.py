"""The trace of one turn, span by span: through a signal, a workflow, its activities and a call of
a model. Temporal and HTTP are real; only the model's words are made up.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import Branch, ContextClient
from durable_context.compaction.requests import CompactionRequests
from durable_context.database import Pool
from durable_context.summarizers.model import ModelSummarizer
from durable_context.telemetry.temporal import interceptors
from tests.captured_telemetry import CapturedTelemetry
from tests.model_server import ModelServer
from tests.telemetry.hints import hints_have_time
from tests.turns import numbered
from tests.workflows.orchestration import PATIENCE, QUICK, Orchestration
from worker.service import SANDBOX

POLICY = QUICK.model_copy(update={"segment_turns": 1, "keep_raw_turns": 0})
TOKENS = "durable_context.summarizer.tokens"
BEGUN = "SignalWithStartWorkflow:Compaction"
TRACE = [
    ("durable_context.record_turn", "", "INTERNAL"),
    ("durable_context.hint", "durable_context.record_turn", "PRODUCER"),
    ("SignalWorkflow:turn_committed", "durable_context.hint", "CLIENT"),
    (BEGUN, "durable_context.hint", "CLIENT"),
    ("HandleSignal:turn_committed", BEGUN, "SERVER"),
    ("RunWorkflow:Compaction", BEGUN, "SERVER"),
    ("StartActivity:plan", BEGUN, "CLIENT"),
    ("RunActivity:plan", "StartActivity:plan", "SERVER"),
    ("compaction.plan", "RunActivity:plan", "INTERNAL"),
    ("StartActivity:summarize", BEGUN, "CLIENT"),
    ("RunActivity:summarize", "StartActivity:summarize", "SERVER"),
    ("compaction.summarize", "RunActivity:summarize", "INTERNAL"),
    ("chat made-up", "compaction.summarize", "CLIENT"),
    ("StartActivity:commit", BEGUN, "CLIENT"),
    ("RunActivity:commit", "StartActivity:commit", "SERVER"),
    ("compaction.commit", "RunActivity:commit", "INTERNAL"),
    ("StartActivity:index", BEGUN, "CLIENT"),
    ("RunActivity:index", "StartActivity:index", "SERVER"),
    ("compaction.index", "RunActivity:index", "INTERNAL"),
    ("CompleteWorkflow:Compaction", BEGUN, "INTERNAL"),
]
"""Each span with its parent. Temporal's interceptor hangs what a workflow does under its start."""


@pytest.fixture
async def orchestration(temporal_address: str) -> AsyncIterator[Orchestration]:
    """Both sides connect as ours do."""
    client = await Client.connect(
        temporal_address, data_converter=pydantic_data_converter, interceptors=interceptors()
    )
    task_queue = f"test-{uuid4().hex}"
    asking = CompactionRequests(temporal_address, task_queue=task_queue)
    yield Orchestration(client, asking, task_queue)
    await asking.close()


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def test_a_turn_is_one_trace_from_recording_it_to_the_published_checkpoint(
    client: ContextClient,
    orchestration: Orchestration,
    pool: Pool,
    model: ModelServer,
    telemetry: CapturedTelemetry,
) -> None:
    branch = orchestration.asking(client, await client.open_branch("conversation"), POLICY)
    summarizer = ModelSummarizer("openai:made-up", base_url=model.base_url)
    async with orchestration.worker(pool, summarizer, workflow_runner=SANDBOX):
        with hints_have_time():
            await branch.record_turn(numbered(1))
            await telemetry.ended("durable_context.hint")
        await orchestration.result(branch)
    spans = telemetry.spans()
    assert sorted(_with_parents(spans)) == sorted(TRACE)
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert {span.status.status_code for span in spans} == {StatusCode.UNSET}
    assert not any(span.events for span in spans)
    _check_temporal_spans(telemetry, branch)
    await _check_steps(telemetry, branch)
    _check_model_call(telemetry, branch, model)


async def test_where_ids_are_exposed_each_step_names_the_conversation(
    client: ContextClient,
    orchestration: Orchestration,
    pool: Pool,
    model: ModelServer,
    telemetry: CapturedTelemetry,
) -> None:
    exposing = POLICY.model_copy(update={"expose_ids": True})
    branch = orchestration.asking(client, await client.open_branch("of the day"), exposing)
    summarizer = ModelSummarizer("openai:made-up", base_url=model.base_url)
    await branch.record_turn(numbered(1))
    async with orchestration.worker(pool, summarizer, workflow_runner=SANDBOX):
        await branch.compact(timeout=PATIENCE)
    for name in ("compaction.plan", "compaction.summarize", "compaction.commit", "chat made-up"):
        for span in telemetry.spans(name):
            assert _said(span)["gen_ai.conversation.id"] == "of the day"
    assert telemetry.spans("chat made-up")


def _with_parents(spans: Sequence[ReadableSpan]) -> list[tuple[str, str, str]]:
    names = {span.context.span_id: span.name for span in spans if span.context}
    return [
        (span.name, names[span.parent.span_id] if span.parent else "", span.kind.name)
        for span in spans
    ]


def _check_temporal_spans(telemetry: CapturedTelemetry, branch: Branch) -> None:
    workflow_id = f"compaction-{branch.branch_uuid}"
    for span in telemetry.spans():
        if span.name.partition(":")[0] in ("RunWorkflow", "StartActivity", "RunActivity"):
            assert _said(span)["temporalWorkflowID"] == workflow_id
    assert _said(telemetry.span("SignalWorkflow:turn_committed")) == {
        "temporalWorkflowID": workflow_id,
        "rpc.response.status_code": "NOT_FOUND",  # so that a run is begun
    }
    [link] = telemetry.span("HandleSignal:turn_committed").links
    began = telemetry.span(BEGUN).context
    assert began is not None and link.context.span_id == began.span_id


async def _check_steps(telemetry: CapturedTelemetry, branch: Branch) -> None:
    [summary] = await branch.summaries()
    [checkpoint] = await branch.checkpoints()
    [compaction] = await branch.compactions()
    of_branch = {"durable_context.branch.uuid": str(branch.branch_uuid), "compaction.attempt": 1}
    of_conversation = of_branch | {"gen_ai.conversation.id": str(branch.branch_uuid)}
    turns = {"compaction.from_turn": 1, "compaction.to_turn": 1}
    began = {"compaction.id": str(compaction.compaction_id)}
    before = {"compaction.tokens_before": summary.covered_tokens}
    tokens = before | {"compaction.tokens_after": summary.token_count}
    assert _said(telemetry.span("compaction.plan")) == {
        **(of_conversation | turns | began | before),
        "compaction.reason": "turn",
        "compaction.checkpoint_turn": 0,
        "compaction.nodes": 1,
        "compaction.artifacts": 0,
        "compaction.paused": False,
    }
    assert _said(telemetry.span("compaction.summarize")) == {
        **(of_conversation | turns | began | tokens),
        "compaction.level": 0,
        "compaction.recipe": "model/openai:made-up/1",
        "compaction.made_by": "model/openai:made-up/1",
        "compaction.degraded": 0,
        "compaction.reused": False,
    }
    assert _said(telemetry.span("compaction.commit")) == {
        **(of_conversation | began | tokens),
        "compaction.checkpoint_id": str(checkpoint.checkpoint_id),
        "compaction.checkpoint_turn": checkpoint.turn_no,
        "compaction.more": False,
    }
    assert _said(telemetry.span("compaction.index")) == of_branch | turns


def _check_model_call(telemetry: CapturedTelemetry, branch: Branch, model: ModelServer) -> None:
    url = urlsplit(model.base_url)
    said = _said(telemetry.span("chat made-up"))
    assert said.pop("gen_ai.usage.input_tokens") == telemetry.value(TOKENS, direction="input")
    assert said.pop("gen_ai.usage.output_tokens") == telemetry.value(TOKENS, direction="output")
    assert said == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "made-up",
        "gen_ai.request.max_tokens": 4_096,
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.conversation.id": str(branch.branch_uuid),
        "server.address": url.hostname,
        "server.port": url.port,
    }


def _said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
