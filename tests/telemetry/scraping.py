"""What a real worker serves of itself, on both of its endpoints, after it has done all kinds of
work: the names that dashboards and alerts may use.
"""

import asyncio
import os
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowFailureError
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import CompactionPolicy, ContextClient
from durable_context.contracts import (
    COMPACTION_TASK_QUEUE,
    COMPACTION_WORKFLOW,
    CompactionRequest,
    compaction_workflow_id,
)
from durable_context.contracts.sweep import SWEEP_WORKFLOW, SweepCounts, SweepPosition, SweepRequest
from tests import model_server
from tests.model_server import ModelServer
from tests.relay import Relay
from tests.telemetry.hints import hints_have_time
from tests.turns import chat, exchange
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK, free_ports
from worker.settings import EXIT_ADDRESS_IN_USE, with_temporal
from worker.worker_process import WorkerProcess

POLICY = CompactionPolicy(
    debounce=timedelta(0),
    segment_turns=2,
    fan_out=2,
    retry_interval=timedelta(milliseconds=100),
    degrade_after=timedelta(0),
    offload_tokens=200,
)
PATIENCE = timedelta(seconds=120)


class Scrape(NamedTuple):
    """Names of series (`…_bucket`, `…_total`, `…`) with the labels each has."""

    series: Mapping[str, frozenset[str]]
    text: str

    def values(self, name: str, **labels: str) -> list[float]:
        """Of the series of this name that have these labels."""
        return [
            sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]


class ScrapedWorker(NamedTuple):
    own: Scrape
    temporal: Scrape


def parsed(text: str) -> Scrape:
    series: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series.setdefault(sample.name, set()).update(sample.labels)
    return Scrape({name: frozenset(labels) for name, labels in series.items()}, text)


async def scrape(port: int, path: str = "/metrics") -> Scrape:
    return parsed(await asyncio.to_thread(_get, f"http://{LOOPBACK}:{port}{path}"))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.read().decode()


class MeasuredWorker(NamedTuple):
    process: WorkerProcess
    temporal_port: int

    async def own(self) -> Scrape:
        return await scrape(self.process.health_port)

    async def temporal(self) -> Scrape:
        return await scrape(self.temporal_port)


@asynccontextmanager
async def measured_worker(
    directory: Path, environment: Mapping[str, str]
) -> AsyncIterator[MeasuredWorker]:
    """A worker process with both endpoints, at ports of its own."""
    async with AsyncExitStack() as stack:
        for attempt in range(3):
            [port] = free_ports(1)
            given = dict(environment)
            given["DURABLE_CONTEXT_TEMPORAL_METRICS_ADDRESS"] = f"{LOOPBACK}:{port}"
            try:
                process = await stack.enter_async_context(WorkerProcess(directory, given))
                break
            except ChildFailed as error:  # somebody was faster at the port
                if error.exit_code != EXIT_ADDRESS_IN_USE or attempt == 2:
                    raise
        yield MeasuredWorker(process, port)


async def scraped_worker(
    directory: Path, database_url: str, temporal_address: str, namespace: str = "default"
) -> ScrapedWorker:
    """A worker that has summarized, merged, degraded, swept, skipped and failed, and whose Temporal
    is away by now, as it shows itself.
    """
    async with ModelServer() as model, Relay(temporal_address) as relay:
        environment = with_temporal(os.environ, relay.address, namespace) | {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:gpt-4o-mini",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
            "DURABLE_CONTEXT_SCHEDULES": "off",
            "DURABLE_CONTEXT_SHUTDOWN_SECONDS": "1",
            "DURABLE_CONTEXT_LAG_SECONDS": "3600",  # measured once, before there is any
        }
        async with measured_worker(directory, environment) as worker:
            temporal = await Client.connect(
                temporal_address, namespace=namespace, data_converter=pydantic_data_converter
            )
            with hints_have_time():
                await _work(database_url, temporal, model)
            relay.cut()
            return ScrapedWorker(await worker.own(), await _refused(worker))


async def _work(database_url: str, temporal: Client, model: ModelServer) -> None:
    async with await ContextClient.connect(
        database_url, temporal=temporal, policy=POLICY
    ) as client:
        branch = await client.open_branch("measured", "main")
        model.script(model_server.unauthorized())  # the first one is degraded
        for turn in range(6):
            await branch.record_turn(_turn(turn))
        await branch.wait_until_compacted(timeout=PATIENCE)
        await branch.compact(timeout=PATIENCE)
        await _sweep(database_url, temporal)
        await _fail(temporal)


def _turn(number: int) -> list[dict[str, Any]]:
    listing = " ".join(f"parcel-{number}-{line}" for line in range(400))
    [asked, told] = chat(f"What became of parcel P-{number}?", f"P-{number} is in Lyon. " * 12)
    return [asked, *exchange(f"call-{number}", listing), told]


async def _refused(worker: MeasuredWorker) -> Scrape:
    """Once a poll has failed."""
    async with asyncio.timeout(PATIENCE.total_seconds()):
        while True:
            temporal = await worker.temporal()
            if "temporal_long_request_failure_total" in temporal.series:
                return temporal
            await asyncio.sleep(0.1)


async def _sweep(database_url: str, temporal: Client) -> None:
    """It signals a run that is not there, which Temporal refuses, and starts one."""
    async with await ContextClient.connect(database_url, temporal=None, policy=POLICY) as silent:
        branch = await silent.open_branch("swept", "main")
        for turn in range(4):
            await branch.record_turn(_turn(turn))
    request = SweepRequest(kind="catch-up", policy=POLICY, grace=timedelta(0))
    await temporal.execute_workflow(
        SWEEP_WORKFLOW, request, id=f"sweep-{uuid4()}", task_queue=COMPACTION_TASK_QUEUE
    )


async def _fail(temporal: Client) -> None:
    """A run of a branch that is not there, a sweep that has found damage, and a run of a workflow
    that is not there.
    """
    request = CompactionRequest(tenant="nobody", branch_uuid=uuid4(), policy=POLICY)
    workflow_id = compaction_workflow_id(request.branch_uuid)
    with pytest.raises(WorkflowFailureError):
        await temporal.execute_workflow(
            COMPACTION_WORKFLOW, request, id=workflow_id, task_queue=COMPACTION_TASK_QUEUE
        )
    damaged = SweepPosition(counts=SweepCounts(found={"errors": 1}))
    with pytest.raises(WorkflowFailureError):
        await temporal.execute_workflow(
            SWEEP_WORKFLOW,
            SweepRequest(kind="verify", policy=POLICY, position=damaged),
            id=f"sweep-{uuid4()}",
            task_queue=COMPACTION_TASK_QUEUE,
        )
    unknown = await temporal.start_workflow(
        "Unknown", id=f"unknown-{uuid4()}", task_queue=COMPACTION_TASK_QUEUE
    )
    async for event in unknown.fetch_history_events(wait_new_event=True):
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            break
    await unknown.terminate()
