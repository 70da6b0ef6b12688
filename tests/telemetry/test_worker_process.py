"""How a worker process lives with telemetry that cannot go where it should."""

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from durable_context import CompactionPolicy, ContextClient
from tests.embedded.processes import CHECKOUT
from tests.turns import numbered
from worker.free_ports import LOOPBACK, free_ports
from worker.health import HealthEndpoint
from worker.settings import EXIT_ADDRESS_IN_USE, Address, with_temporal
from worker.telemetry import FLUSH_SECONDS, Telemetry
from worker.telemetry_settings import TelemetrySettings
from worker.worker_process import SHUTDOWN_SECONDS, WorkerProcess

WITHOUT_EXTRA = """
import sys
from importlib.machinery import PathFinder

class WithoutExtra(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "prometheus_client")):
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtra
"""


@pytest.fixture
def environment(database_url: str, temporal_address: str) -> dict[str, str]:
    return with_temporal(os.environ, temporal_address, "default") | {
        "DURABLE_CONTEXT_DATABASE_URL": database_url,
        "DURABLE_CONTEXT_SCHEDULES": "off",
    }


async def test_a_taken_address_of_temporals_metrics_has_the_exit_code_of_a_taken_address(
    environment: dict[str, str],
) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, 0)
    async with server:
        address = f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "worker"),
            cwd=CHECKOUT,
            env=environment | {"DURABLE_CONTEXT_TEMPORAL_METRICS_ADDRESS": address},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
    assert process.returncode == EXIT_ADDRESS_IN_USE
    assert f"Temporal's metrics at {address}" in said.decode()
    assert "Traceback" not in said.decode()


async def test_a_collector_that_never_answers_neither_stops_the_work_nor_delays_the_end(
    environment: dict[str, str], database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    async with _silent() as address:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://{address}"
        environment["OTEL_BSP_SCHEDULE_DELAY"] = "50"
        environment["OTEL_METRIC_EXPORT_INTERVAL"] = "50"
        async with WorkerProcess(tmp_path, environment) as worker:
            await _compact(database_url, temporal_address)
            began = asyncio.get_running_loop().time()
            await worker.stop()
            lasted = asyncio.get_running_loop().time() - began
            assert (await worker.failed()).exit_code == 0
    assert lasted < FLUSH_SECONDS + SHUTDOWN_SECONDS
    log = (tmp_path / "worker.log").read_text()
    assert "telemetry that was left is lost: no answer in 5 s" in log
    assert "stopped" in log


async def test_a_collector_that_is_away_does_not_fill_the_log(
    environment: dict[str, str], database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    [nobody] = free_ports(1)
    environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://{LOOPBACK}:{nobody}"
    environment["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
    environment["OTEL_BSP_SCHEDULE_DELAY"] = "50"
    environment["OTEL_METRIC_EXPORT_INTERVAL"] = "50"
    async with WorkerProcess(tmp_path, environment):
        await _compact(database_url, temporal_address)
    log = (tmp_path / "worker.log").read_text()
    complaints = [line for line in log.splitlines() if " opentelemetry" in line]
    assert len(complaints) <= 4  # of two exporters, each with a word on trying again
    assert "Traceback" not in log


async def test_without_the_extra_a_worker_works_and_says_what_metrics_need(
    environment: dict[str, str], database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_EXTRA)
    environment["PYTHONPATH"] = str(tmp_path)
    async with WorkerProcess(tmp_path, environment) as worker:
        await _compact(database_url, temporal_address)
        status, said = await asyncio.to_thread(_get, worker.health_port)
    assert status == 404
    assert said == {"error": "metrics need the extra: pip install durable-context[telemetry]"}


async def test_disabled_there_are_no_metrics_and_the_page_says_so() -> None:
    [port] = free_ports(1)
    settings = TelemetrySettings(disabled=True)
    async with Telemetry(settings, is_scraped=True) as telemetry:
        assert not telemetry.is_measured
        async with HealthEndpoint(Address(LOOPBACK, port), live={}, ready={}, metrics=telemetry):
            status, said = await asyncio.to_thread(_get, port)
    assert status == 404
    assert said == {"error": "OTEL_SDK_DISABLED says that there are no metrics"}


@asynccontextmanager
async def _silent() -> AsyncIterator[str]:
    """The address of somebody who listens, and no more."""
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(listen, LOOPBACK, 0)
    try:
        yield f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    finally:
        ended.set()
        server.close()


async def _compact(database_url: str, temporal_address: str) -> None:
    policy = CompactionPolicy(debounce=timedelta(0), segment_turns=1, keep_raw_turns=0)
    async with await ContextClient.connect(
        database_url, temporal=temporal_address, policy=policy
    ) as client:
        branch = await client.open_branch("measured")
        await branch.record_turn(numbered(1))
        await branch.compact(timeout=120)


def _get(port: int) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=10) as response:
            return response.status, {}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
