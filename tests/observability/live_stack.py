"""A whole deployment on this machine, watched by Prometheus: PostgreSQL, Temporal, a worker and an
agent's process are real and show what they measure; a model is made up.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import CompactionPolicy, ContextClient
from durable_context.compaction.requests import register_search_attributes
from durable_context.migrations import migrate
from tests.model_server import ModelServer
from tests.observability.prometheus_server import PrometheusServer
from worker.free_ports import LOOPBACK, free_ports
from worker.postgres_server import PostgresServer
from worker.settings import EmbeddedSettings, with_temporal
from worker.temporal_binary import ExternalTemporal, find_temporal
from worker.temporal_server import TemporalServer
from worker.worker_process import WorkerProcess

SUMMARIZER = "model:openai:gpt-4o-mini"
"""Has a price. The server that answers is the tests' own."""
POLICY = CompactionPolicy(
    debounce=timedelta(milliseconds=500),
    retry_interval=timedelta(seconds=1),
    degrade_after=timedelta(seconds=6),
    offload_tokens=300,
)


@dataclass(frozen=True)
class LiveStack:
    """`alone`: a client that does not reach Temporal."""

    client: ContextClient
    alone: ContextClient
    model: ModelServer
    temporal: Client
    prometheus: PrometheusServer


@contextlib.contextmanager
def directory_for_once() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="durable-context-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # under root PostgreSQL runs as another user, who must come here
        yield directory


@contextlib.asynccontextmanager
async def live_stack(directory: Path) -> AsyncGenerator[LiveStack]:
    """Once in a process, whose metrics are the agent's."""
    async with contextlib.AsyncExitStack() as exits:
        postgres = await exits.enter_async_context(
            PostgresServer(directory / "postgres", durable=False)
        )
        await migrate(postgres.database_url)
        temporal = await _temporal(directory / "temporal", exits)
        model = await exits.enter_async_context(ModelServer())
        given = _given(postgres.database_url, model)
        jobs = await _worker(directory / "worker", temporal, given, exits)
        jobs["durable-context-agent"] = _agent()
        [nobody] = free_ports(1)
        reached = temporal.service_client.config.target_host
        client, alone = [
            await exits.enter_async_context(
                await ContextClient.connect(postgres.database_url, temporal=address, policy=POLICY)
            )
            for address in (reached, f"{LOOPBACK}:{nobody}")
        ]
        prometheus = await exits.enter_async_context(
            PrometheusServer(directory / "prometheus", jobs)
        )
        yield LiveStack(client, alone, model, temporal, prometheus)


async def _temporal(directory: Path, exits: contextlib.AsyncExitStack) -> Client:
    source = await find_temporal(
        EmbeddedSettings.from_env({**os.environ, "TEMPORAL_ADDRESS": ""}), _tell
    )
    assert not isinstance(source, ExternalTemporal)
    server = await exits.enter_async_context(TemporalServer(directory, source, ui=False))
    client = await Client.connect(
        server.address, namespace=server.namespace, data_converter=pydantic_data_converter
    )
    await register_search_attributes(client)
    return client


def _given(database_url: str, model: ModelServer) -> dict[str, str]:
    return {
        "DURABLE_CONTEXT_DATABASE_URL": database_url,
        "DURABLE_CONTEXT_SUMMARIZERS": SUMMARIZER,
        "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
        "DURABLE_CONTEXT_POLICY": POLICY.model_dump_json(),
        "DURABLE_CONTEXT_LAG_SECONDS": "2",
        "DURABLE_CONTEXT_CATCH_UP_SECONDS": "60",
        "DURABLE_CONTEXT_GRACE_SECONDS": "10",
        "OPENAI_API_KEY": "made-up",
    }


async def _worker(
    directory: Path, temporal: Client, given: dict[str, str], exits: contextlib.AsyncExitStack
) -> dict[str, str]:
    """The addresses that Prometheus scrapes of it."""
    [port] = free_ports(1)
    given["DURABLE_CONTEXT_TEMPORAL_METRICS_ADDRESS"] = f"{LOOPBACK}:{port}"
    target = temporal.service_client.config.target_host
    environment = with_temporal(os.environ, target, temporal.namespace) | given
    worker = await exits.enter_async_context(WorkerProcess(directory, environment))
    return {
        "durable-context-worker": f"{LOOPBACK}:{worker.health_port}",
        "durable-context-temporal": f"{LOOPBACK}:{port}",
    }


def _agent() -> str:
    """Shows the metrics of this process, as docs/telemetry.md has it."""
    [port] = free_ports(1)
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()], shutdown_on_exit=False))
    start_http_server(port, addr=LOOPBACK)
    return f"{LOOPBACK}:{port}"


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
