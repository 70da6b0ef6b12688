"""The embedded stack: what it offers, what survives, and that no process outlives it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

import asyncpg
import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from durable_context.migrations import migration_names
from tests.embedded.processes import Owner, processes_of, until, until_gone
from worker.embedded import EmbeddedStack
from worker.errors import ChildFailed, DataDirectoryInUse

HOLD = """
import asyncio, sys
from worker.embedded import EmbeddedStack

async def main():
    async with EmbeddedStack(sys.argv[1], ui=False) as stack:
        print(stack.database_url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """A data directory; a test that leaves a process behind fails, and the process ends."""
    yield tmp_path / "data"
    left = processes_of(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == {}


async def test_what_is_recorded_survives_a_restart(directory: Path) -> None:
    async with EmbeddedStack(directory) as stack:
        assert len(processes_of(directory)) > 4
        page = await asyncio.to_thread(lambda: urlopen(f"{stack.ui_url}/", timeout=10).read())
        assert b"<html" in page
        assert await _execute(stack, "select count(*) from durable_context.migrations") == len(
            migration_names()
        )
        await _execute(stack, "create table public.kept (word text)")
        await _execute(stack, "insert into public.kept values ('still here')")
        client = await Client.connect(stack.temporal_address, namespace=stack.temporal_namespace)
        handle = await client.start_workflow("Kept", id="kept", task_queue="nobody-listens")
        await handle.terminate()
    assert processes_of(directory) == {}

    with pytest.raises(ZeroDivisionError):
        async with EmbeddedStack(directory, ui=False) as stack:
            assert stack.ui_url is None
            assert await _execute(stack, "select word from public.kept") == "still here"
            client = await Client.connect(
                stack.temporal_address, namespace=stack.temporal_namespace
            )
            description = await client.get_workflow_handle("kept").describe()
            assert description.status == WorkflowExecutionStatus.TERMINATED
            _ = 1 // 0  # an error in the block comes through, and stops everything as well
    assert processes_of(directory) == {}


async def test_a_temporal_that_the_environment_names_is_used_and_none_started(
    directory: Path, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("DURABLE_CONTEXT_TEMPORAL_UI_URL", "http://ui.example")
    async with EmbeddedStack(directory) as stack:
        assert stack.temporal_address == temporal_address
        assert stack.ui_url == "http://ui.example"
        assert not (directory / "temporal").exists()


async def test_a_second_owner_is_refused_and_told_who_owns_it(directory: Path) -> None:
    async with Owner("-c", HOLD, str(directory)) as owner:
        url = (await owner.until_it_says("postgresql://")).splitlines()[-1]
        before = processes_of(directory)

        with pytest.raises(DataDirectoryInUse) as refusal:
            async with EmbeddedStack(directory):
                pass

        assert refusal.value.owner_pid == owner.process.pid
        assert str(directory) in str(refusal.value)
        assert str(owner.process.pid) in str(refusal.value)
        assert processes_of(directory).keys() == before.keys()
        await (await asyncpg.connect(url)).close()
        await owner.end(signal.SIGTERM)


async def test_a_killed_owners_processes_end_when_the_next_one_starts(directory: Path) -> None:
    async with Owner("-c", HOLD, str(directory)) as owner:
        await owner.until_it_says("postgresql://")
        await owner.end(signal.SIGKILL)
        orphans = processes_of(directory)
        assert len(orphans) > 4

    async with EmbeddedStack(directory, ui=False) as stack:
        assert not orphans.keys() & processes_of(directory).keys()
        assert await _execute(stack, "select 1") == 1
        for pid in processes_of(directory):
            os.kill(pid, signal.SIGKILL)
        await stack.failed()

    # Killed servers may not be waited for, as if they could still answer.
    async with asyncio.timeout(25), EmbeddedStack(directory, ui=False) as stack:
        assert await _execute(stack, "select 1") == 1


@pytest.mark.parametrize(
    ("signal_number", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
async def test_a_signal_to_the_foreground_command_leaves_no_process(
    directory: Path, signal_number: signal.Signals, exit_code: int
) -> None:
    async with Owner("-m", "worker", "dev", "--data-dir", str(directory)) as owner:
        said = await owner.until_it_says("Ready")
        assert "postgresql://" in said
        assert "http://127.0.0.1:" in said
        running = processes_of(directory)

        assert await owner.end(signal_number) == exit_code

        await until_gone(running)
    assert "Traceback" not in said
    # The worker was asked, finished, and left by itself.
    assert "stopped" in (directory / "worker" / "worker.log").read_text().splitlines()[-1]


async def test_a_signal_while_it_starts_leaves_no_process(directory: Path) -> None:
    async with Owner("-m", "worker", "dev", "--data-dir", str(directory)) as owner:
        await until((directory / "temporal" / "temporal.pid").exists)
        assert await owner.end(signal.SIGTERM) == 143


async def test_a_worker_that_cannot_start_stops_what_was_started(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURABLE_CONTEXT_MAX_ACTIVITIES", "none")

    with pytest.raises(ChildFailed) as failure:
        async with EmbeddedStack(directory, ui=False):
            pass

    assert failure.value.name == "worker"
    assert "DURABLE_CONTEXT_MAX_ACTIVITIES='none' must be a whole number" in str(failure.value)
    assert (directory / "postgres" / "postgres.log").exists()
    assert processes_of(directory) == {}


async def _execute(stack: EmbeddedStack, statement: str) -> object:
    connection = await asyncpg.connect(stack.database_url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()
