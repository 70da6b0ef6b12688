"""`python -m worker` as a process: what it refuses, what it says of itself, and how it ends."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from durable_context import CompactionPolicy, ContextClient
from tests.embedded.processes import CHECKOUT, until
from tests.model_server import ModelServer
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
    assert "stopped" in _log(tmp_path)
    assert "Fatal Python error" not in _log(tmp_path)


async def test_asked_to_stop_it_waits_for_a_model_that_is_answering(
    environment: dict[str, str], database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    async with (
        ModelServer() as model,
        await ContextClient.connect(
            database_url,
            temporal=temporal_address,
            policy=CompactionPolicy(debounce=timedelta(0)),
        ) as client,
    ):
        environment |= {
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:made-up",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
        }
        model.hold()
        branch = await client.open_branch("talk", "main")
        async with WorkerProcess(tmp_path, environment) as worker:
            for turn in range(8):
                await branch.record_turn(_turn(turn), turn_key=str(turn))
            await model.request_arrived()
            stopping = asyncio.create_task(worker.stop())
            await until(lambda: "Beginning worker shutdown" in _log(tmp_path))
            assert not stopping.done()
            model.release()
            await stopping
            assert (await worker.failed()).exit_code == 0
        async with WorkerProcess(tmp_path, environment):
            await branch.wait_until_compacted(timeout=timedelta(seconds=60))
        assert model.count == 1  # its answer was kept, not asked for again
        [summary] = await branch.summaries()
        assert summary.made_by == "model/openai:made-up/1"


def _turn(number: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"What became of parcel P-{number}?"},
        {"role": "assistant", "content": f"Parcel P-{number} was delivered in Lyon. " * 12},
    ]


def _log(directory: Path) -> str:
    return (directory / "worker.log").read_text()


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
