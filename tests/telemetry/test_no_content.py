"""Nothing that was said gets into spans, metrics, logs or Temporal's histories."""

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payloads
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import ContextClient
from durable_context.compaction.requests import CompactionRequests
from durable_context.compaction.temporal_calls import fairness_key
from durable_context.contracts import compaction_workflow_id
from durable_context.contracts.rebuild import rebuild_workflow_id
from durable_context.database import Pool
from durable_context.summarizers.model import ModelSummarizer
from durable_context.telemetry.temporal import interceptors
from tests.captured_telemetry import CapturedTelemetry
from tests.model_server import ModelServer
from tests.telemetry.collector import collecting
from tests.telemetry.confiding import (
    BRANCH,
    CONVERSATION,
    POLICY,
    TENANT,
    WORD,
    confide,
)
from tests.telemetry.hints import hints_have_time
from tests.telemetry.scraping import measured_worker
from tests.workflows.orchestration import Orchestration
from worker.service import SANDBOX
from worker.settings import with_temporal

OURS = ("durable_context", "workflows", "activities", "worker", "temporalio", "opentelemetry")


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def talkative(database_url: str) -> AsyncIterator[ContextClient]:
    async with await ContextClient.connect(database_url, temporal=None, tenant=TENANT) as client:
        yield client


async def test_what_is_said_is_in_no_span_metric_log_or_history(
    talkative: ContextClient,
    temporal_address: str,
    pool: Pool,
    model: ModelServer,
    telemetry: CapturedTelemetry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in OURS:
        caplog.set_level(logging.DEBUG, name)
    client = await Client.connect(
        temporal_address, data_converter=pydantic_data_converter, interceptors=interceptors()
    )
    queue = f"test-{uuid4().hex}"
    requests = CompactionRequests(temporal_address, task_queue=queue)
    orchestration = Orchestration(client, requests, queue)
    opened = await talkative.open_branch(CONVERSATION, BRANCH)
    branch = orchestration.asking(talkative, opened, POLICY)
    summarizer = ModelSummarizer("openai:made-up", base_url=model.base_url)
    async with orchestration.worker(pool, summarizer, workflow_runner=SANDBOX):
        with hints_have_time():
            await confide(branch, model)
    await requests.close()
    seen = telemetry.everything()
    logs = "\n".join(caplog.handler.format(record) for record in caplog.records)
    ids = (compaction_workflow_id(branch.branch_uuid), rebuild_workflow_id(branch.branch_uuid))
    histories = "".join([str(await _events(client, each)) for each in ids])
    assert str(branch.branch_uuid) in seen and "chat made-up" in seen
    assert "temporalio" in {record.name.partition(".")[0] for record in caplog.records}
    assert "SummarizeRequest" in histories or "compaction_id" in histories
    for text in (seen, logs, histories):
        for secret in (WORD, CONVERSATION, BRANCH):
            assert secret not in text, _around(text, secret)
    assert TENANT in histories and TENANT not in seen  # what runs are started with names it
    in_clear = "".join([str(await _events(client, each, payloads=False)) for each in ids])
    assert fairness_key(TENANT) in in_clear and TENANT not in in_clear


async def test_a_worker_process_says_nothing_of_it_either_wherever_one_looks(
    tmp_path: Path,
    database_url: str,
    temporal_address: str,
    model: ModelServer,
    telemetry: CapturedTelemetry,
) -> None:
    async with collecting() as collector:
        environment = with_temporal(os.environ, temporal_address, "default") | {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:made-up",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
            "DURABLE_CONTEXT_SCHEDULES": "off",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "workers",
        }
        async with (
            measured_worker(tmp_path, environment) as worker,
            await ContextClient.connect(
                database_url, temporal=temporal_address, tenant=TENANT, policy=POLICY
            ) as client,
        ):
            with hints_have_time():
                await confide(await client.open_branch(CONVERSATION, BRANCH), model)
            pages = (await worker.own()).text + (await worker.temporal()).text
        # What was left was sent when the worker was asked to stop.
        assert {"compaction.summarize", "compaction.replace", "chat made-up"} <= {
            span.name for span in collector.spans
        }
        assert collector.services == {"workers"}
        [began, *_] = telemetry.spans("SignalWithStartWorkflow:Compaction")
        assert began.context is not None
        assert began.context.trace_id.to_bytes(16) in {span.trace_id for span in collector.spans}
        assert "durable_context.summaries" in collector.metric_names
        log = (tmp_path / "worker.log").read_text()
        assert "stopped" in log
        for text in (pages, collector.everything(), log):
            for secret in (WORD, CONVERSATION, BRANCH, TENANT):
                assert secret not in text, _around(text, secret)


async def _events(client: Client, workflow_id: str, *, payloads: bool = True) -> list[bytes]:
    """Of all its runs: whatever a payload holds is text in it. Without them: what no codec
    reaches.
    """
    found: list[bytes] = []
    async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'"):
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        for event in (await handle.fetch_history()).events:
            if not payloads:
                _clear_payloads(event)
            found.append(event.SerializeToString())
    return found


def _clear_payloads(message: Message) -> None:
    for field, value in message.ListFields():
        if isinstance(value, Payloads):
            message.ClearField(field.name)
        elif isinstance(value, Message):
            _clear_payloads(value)


def _around(text: str, secret: str) -> str:
    place = text.index(secret)
    return text[max(0, place - 600) : place + 200]
