"""The disasters of docs/operations.md: a dump is restored, and a Temporal forgot everything."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.model_server import ModelServer
from tests.turns import numbered
from tests.workflows.orchestration import record
from worker.postgres_binaries import INSTALLATION, installed_package
from worker.postgres_server import PostgresServer
from worker.settings import EmbeddedSettings, with_temporal
from worker.temporal_binary import ExternalTemporal, find_temporal
from worker.temporal_server import TemporalServer
from worker.worker_process import WorkerProcess

POLICY = CompactionPolicy(debounce=timedelta(0), worker_lost_after=timedelta(seconds=5))
BUDGET = Budget(max_tokens=8_000)
LARGE = "Line of a log of the depot.\n" * 40_000
"""Over 1 MiB: it is in the object store."""
PROGRAMS = installed_package() / INSTALLATION / "bin"
PATIENCE = timedelta(minutes=3)


@dataclass
class Copies:
    """Databases that dumps are restored into; they are dropped with the test."""

    postgres: PostgresServer
    directory: Path
    names: list[str]

    def dump(self, url: str) -> Path:
        file = self.directory / "durable_context.dump"
        _run("pg_dump", "--format=custom", f"--file={file}", url)
        return file

    async def restored(self, dump: Path) -> str:
        """The address of a new database."""
        name = f"restored_{uuid4().hex}"
        await self.execute(f"create database {name}")
        self.names.append(name)
        url = self.postgres.url_of(name)
        _run("pg_restore", "--exit-on-error", f"--dbname={url}", str(dump))
        return url

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.postgres.url_of("postgres"))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@pytest.fixture
async def copies(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Copies]:
    copies = Copies(postgres, tmp_path, [])
    yield copies
    for name in copies.names:
        await copies.execute(f"drop database {name} with (force)")


async def test_a_restored_dump_is_undamaged_prepares_the_same_and_goes_on(
    database_url: str, pool: Pool, copies: Copies, tmp_path: Path
) -> None:
    objects = tmp_path / "objects"
    async with await _connect(database_url, objects) as client:
        branch = await client.open_branch("talk", "main")
        await record(branch, 26)
        await branch.put_artifact(LARGE, name="depot.log")
        await compact_all(pool, branch.branch_uuid, POLICY)
        await branch.fork("other", at_turn=20)
        before = await _prepared(branch)
        dump = await asyncio.to_thread(copies.dump, database_url)
        await branch.record_turn(numbered(27))  # after the dump: it is lost

    restored = await copies.restored(dump)
    async with await _connect(restored, objects) as client:
        reports = [report async for report in client.verify()]
        assert sum(report.turns for report in reports) == 26
        assert sum(report.contents for report in reports) == 1
        assert not any(report.findings for report in reports)
        branch = await client.find_branch("talk")
        assert await _prepared(branch) == before
        assert (await branch.record_turn(numbered(27))).turn_no == 27


async def test_an_object_store_older_than_the_database_is_found_by_verify(
    database_url: str, copies: Copies, tmp_path: Path
) -> None:
    async with await _connect(database_url, tmp_path / "objects") as client:
        branch = await client.open_branch("talk", "main")
        await record(branch, 3)
        await branch.put_artifact(LARGE, name="depot.log")
        dump = await asyncio.to_thread(copies.dump, database_url)
    async with await _connect(await copies.restored(dump), tmp_path / "older") as client:
        found = [one async for report in client.verify() for one in report.findings]
        assert [(one.check, one.found) for one in found] == [("content_hash", "others, or none")]
        prepared = await _prepared(await client.find_branch("talk"))  # goes on without it
        assert "Line of a log" not in prepared


async def test_a_temporal_that_forgot_all_loses_no_compaction(
    database_url: str, tmp_path: Path
) -> None:
    source = await find_temporal(EmbeddedSettings.from_env(_own_server()), print)
    assert not isinstance(source, ExternalTemporal)
    async with ModelServer() as model:
        environment = {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:made-up",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
            "DURABLE_CONTEXT_CATCH_UP_SECONDS": "1",
            "DURABLE_CONTEXT_GRACE_SECONDS": "0",
        }
        model.hold()
        async with TemporalServer(tmp_path / "temporal", source, ui=False) as temporal:
            of_first = with_temporal(os.environ, temporal.address, "default") | environment
            async with (
                await ContextClient.connect(
                    database_url, temporal=temporal.address, policy=POLICY
                ) as client,
                WorkerProcess(tmp_path / "worker", of_first) as worker,
            ):
                branches = [await client.open_branch(f"talk-{n}") for n in range(3)]
                for branch in branches:
                    await record(branch, POLICY.segment_turns + POLICY.keep_raw_turns)
                await model.request_arrived(3)
                os.kill(worker.pid, signal.SIGKILL)
                await worker.failed()
        model.release()
        async with TemporalServer(tmp_path / "empty", source, ui=False) as temporal:
            of_second = with_temporal(os.environ, temporal.address, "default") | environment
            async with (
                await ContextClient.connect(database_url, temporal=None, policy=POLICY) as client,
                WorkerProcess(tmp_path / "next", of_second),
            ):
                for name in range(3):  # nobody records a turn: the schedule finds them
                    branch = await client.find_branch(f"talk-{name}")
                    await branch.wait_until_compacted(timeout=PATIENCE)
                    assert len(await branch.summaries()) == 1


def _own_server() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "TEMPORAL_ADDRESS"}


async def _connect(url: str, objects: Path) -> ContextClient:
    return await ContextClient.connect(url, temporal=None, artifact_url=objects.as_uri())


async def _prepared(branch: Branch) -> str:
    prepared = await branch.prepare("Where is shipment SHP-0003?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    return str(prepared.messages)


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
