"""`python -m worker` as a process: what it refuses, what it says of itself, and how it ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.embedded.processes import CHECKOUT
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK, free_ports
from worker.settings import EXIT_ADDRESS_IN_USE, with_temporal
from worker.worker_process import WorkerProcess


@pytest.fixture
def environment(database_url: str, temporal_address: str) -> dict[str, str]:
    environment = with_temporal(os.environ, temporal_address, "default")
    return environment | {"DURABLE_CONTEXT_DATABASE_URL": database_url}


async def test_without_a_database_it_says_so_in_one_line(environment: dict[str, str]) -> None:
    del environment["DURABLE_CONTEXT_DATABASE_URL"]
    code, said = await _run(environment)
    assert code == 1
    assert said.count("\n") == 1
    assert "DURABLE_CONTEXT_DATABASE_URL is not set" in said


async def test_without_temporal_it_says_whom_it_could_not_reach(
    environment: dict[str, str],
) -> None:
    [port] = free_ports(1)
    code, said = await _run(environment | {"TEMPORAL_ADDRESS": f"{LOOPBACK}:{port}"})
    assert code == 1
    assert f"no Temporal server at '{LOOPBACK}:{port}'" in said
    assert "Traceback" not in said


async def test_a_taken_health_address_has_an_exit_code_of_its_own(
    environment: dict[str, str],
) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code, said = await _run(
            environment | {"DURABLE_CONTEXT_HEALTH_ADDRESS": f"{LOOPBACK}:{port}"}
        )
    assert code == EXIT_ADDRESS_IN_USE
    assert "Traceback" not in said


async def test_asked_to_stop_it_exits_with_0(environment: dict[str, str], tmp_path: Path) -> None:
    async with WorkerProcess(tmp_path, environment) as worker:
        os.kill(worker.pid, signal.SIGINT)
        with pytest.raises(ChildFailed) as ended:
            raise await worker.failed()
        assert ended.value.exit_code == 0
    log = (tmp_path / "worker.log").read_text()
    assert "stopped" in log
    assert "Fatal Python error" not in log


async def _run(environment: dict[str, str]) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "worker"),
        cwd=CHECKOUT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    return process.returncode, said.decode()
