"""`python -m worker` is asked to stop while a model answers: what it finishes, says, and leaves."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from tests.embedded.processes import until
from tests.model_server import ModelServer
from tests.own_namespace import own_namespace
from tests.workflows.orchestration import record
from worker.free_ports import LOOPBACK
from worker.settings import with_temporal
from worker.worker_process import WorkerProcess

POLICY = CompactionPolicy(debounce=timedelta(0), worker_lost_after=timedelta(seconds=5))
PATIENCE = timedelta(minutes=3)


@dataclass
class Busy:
    """A branch whose one summary a model is asked for, and the worker that asks."""

    branch: Branch
    model: ModelServer
    environment: dict[str, str]
    directory: Path

    def worker(self, **variables: str) -> WorkerProcess:
        named = {f"DURABLE_CONTEXT_{name}": text for name, text in variables.items()}
        return WorkerProcess(self.directory, self.environment | named)

    async def says(self, words: str) -> None:
        await until(lambda: words in (self.directory / "worker.log").read_text(), seconds=120)


@pytest.fixture
async def busy(temporal_address: str, database_url: str, tmp_path: Path) -> AsyncIterator[Busy]:
    temporal = await own_namespace(temporal_address, "draining")
    async with (
        ModelServer() as model,
        await ContextClient.connect(database_url, temporal=temporal, policy=POLICY) as client,
    ):
        model.hold()
        branch = await client.open_branch("talk", "main")
        await record(branch, POLICY.segment_turns + POLICY.keep_raw_turns)
        environment = with_temporal(os.environ, temporal_address, temporal.namespace) | {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:made-up",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
        }
        yield Busy(branch, model, environment, tmp_path)


async def test_while_it_finishes_what_was_begun_it_is_alive_and_not_ready(busy: Busy) -> None:
    async with busy.worker() as worker:
        await busy.model.request_arrived()
        assert (await _get(worker, "/ready"))[0] == 200
        os.kill(worker.pid, signal.SIGTERM)
        await busy.says("stopping: what was begun has 20 s")
        status, checks = await _get(worker, "/ready")
        assert (status, checks["workers"]) == (503, "WorkerStopping")
        assert (checks["postgres"], checks["temporal"]) == ("ok", "ok")
        assert await _get(worker, "/live") == (200, {"workers": "ok"})
        busy.model.release()
        assert (await worker.failed()).exit_code == 0
    async with busy.worker():
        await busy.branch.wait_until_compacted(timeout=PATIENCE)
    assert busy.model.count == 1  # its answer was kept, and paid for once


async def test_it_waits_no_longer_than_it_is_told_to(busy: Busy) -> None:
    async with busy.worker(SHUTDOWN_SECONDS="1") as worker:
        await busy.model.request_arrived()
        os.kill(worker.pid, signal.SIGTERM)
        assert (await worker.failed()).exit_code == 0  # the model never answered
    busy.model.release()
    async with busy.worker():
        await busy.branch.wait_until_compacted(timeout=PATIENCE)
    assert busy.model.count == 2


async def test_a_second_signal_ends_it_at_once(busy: Busy) -> None:
    async with busy.worker() as worker:
        await busy.model.request_arrived()
        ended = asyncio.create_task(worker.failed())
        while not ended.done():  # those of the first second are taken for one request
            os.kill(worker.pid, signal.SIGTERM)
            await asyncio.wait([ended], timeout=0.2)
        assert (await ended).exit_code == 128 + signal.SIGTERM
        await busy.says("ended by a second signal")
    busy.model.release()
    async with busy.worker():
        await busy.branch.wait_until_compacted(timeout=PATIENCE)


async def _get(worker: WorkerProcess, path: str) -> tuple[int, dict[str, str]]:
    def ask() -> tuple[int, dict[str, str]]:
        connection = HTTPConnection(LOOPBACK, worker.health_port, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    return await asyncio.to_thread(ask)
