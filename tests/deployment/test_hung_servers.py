"""A worker whose database does not answer any more: what it shows, and that it ends when told."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.embedded.processes import CHECKOUT
from tests.relay import Relay
from tests.telemetry.scraping import scrape
from worker.child_process import ChildProcess, Command
from worker.settings import with_temporal
from worker.worker_process import STOP_STEPS, WorkerProcess


@pytest.fixture
async def relay(database_url: str) -> AsyncIterator[Relay]:
    async with Relay(database_url.rpartition("@")[2].partition("/")[0]) as relay:
        yield relay


@pytest.fixture
def environment(database_url: str, temporal_address: str, relay: Relay) -> dict[str, str]:
    user, _, rest = database_url.rpartition("@")
    return with_temporal(os.environ, temporal_address, "default") | {
        "DURABLE_CONTEXT_DATABASE_URL": f"{user}@{relay.address}/{rest.partition('/')[2]}",
        "DURABLE_CONTEXT_SCHEDULES": "off",
        "DURABLE_CONTEXT_LAG_SECONDS": "1",
        "DURABLE_CONTEXT_SHUTDOWN_SECONDS": "1",
    }


async def test_a_database_that_hangs_leaves_no_old_lag_and_holds_up_no_end(
    environment: dict[str, str], relay: Relay, tmp_path: Path
) -> None:
    async with WorkerProcess(tmp_path, environment) as worker:
        async with asyncio.timeout(45):
            await _until_measured(worker, True)
            relay.hang()
            await _until_measured(worker, False)  # the driver's own bound is 60 s
        os.kill(worker.pid, signal.SIGTERM)
        async with asyncio.timeout(45):
            await worker.failed()
        said = (tmp_path / "worker.log").read_text()
        assert "Traceback" not in said


async def test_a_worker_that_still_connects_ends_at_once(
    environment: dict[str, str], relay: Relay, tmp_path: Path
) -> None:
    relay.hang()
    command = Command([sys.executable, "-m", "worker"], environment, directory=CHECKOUT)
    worker = ChildProcess("worker", command, directory=tmp_path, stop_steps=STOP_STEPS)
    await worker.start()
    try:
        async with asyncio.timeout(60):
            await relay.met.wait()
        os.kill(worker.pid, signal.SIGTERM)
        async with asyncio.timeout(45):
            assert await worker.wait() == 0
    finally:
        await worker.stop()


async def _until_measured(worker: WorkerProcess, is_measured: bool) -> None:
    while True:
        shown = await scrape(worker.health_port)
        if bool(shown.values("durable_context_lag_branches")) == is_measured:
            return
        await asyncio.sleep(0.1)
