"""A PostgreSQL of our own survives what happens to processes, ports and folders."""

import asyncio
import os
import pwd
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncpg
import pytest

from tests.embedded.processes import processes_of, until_gone
from worker.errors import PostgresUnavailable
from worker.postgres_binaries import UNPRIVILEGED_USERS, copied_programs, installed_package
from worker.postgres_server import PostgresServer


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    yield tmp_path / "postgres"
    assert processes_of(tmp_path) == {}


@pytest.fixture
def cache() -> Iterator[Path]:
    """A folder that everybody can reach, as pytest's own are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


async def test_it_is_durable_and_listens_on_loopback_with_a_password_only(directory: Path) -> None:
    modes = _modes_above(directory)
    async with PostgresServer(directory) as server:
        connection = await asyncpg.connect(server.database_url)
        assert await connection.fetchval("show fsync") == "on"
        assert await connection.fetchval("show listen_addresses") == "127.0.0.1"
        assert await connection.fetchval("show unix_socket_directories") == ""
        assert await connection.fetchval("select lower('ÄÖ')") == "äö"
        await connection.execute("create extension vector")
        await connection.close()
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(server.database_url, password="wrong")
        assert {_owner(pid) for pid in processes_of(directory)} == {_expected_user()}
    assert (directory / "password").stat().st_mode & 0o777 == 0o600
    assert _modes_above(directory) == modes


async def test_it_comes_back_after_its_process_was_killed(directory: Path) -> None:
    async with PostgresServer(directory) as server:
        await _execute(server, "create table kept as select 1 as one")
        processes = processes_of(directory)
        [postmaster] = [pid for pid, command in processes.items() if "listen_addresses" in command]
        os.kill(postmaster, signal.SIGKILL)
        failure = await server.failed()
        assert failure.exit_code == -signal.SIGKILL
        # At once, while processes of the killed server may still be leaving.
        async with PostgresServer(directory) as successor:
            assert await _execute(successor, "select one from kept") == 1
    await until_gone(processes)


async def test_a_stale_lock_file_with_a_pid_that_now_belongs_to_another_process(
    directory: Path,
) -> None:
    async with PostgresServer(directory) as server:
        lock = (directory / "cluster" / "postmaster.pid").read_text()
        await server.stop()
    user = pwd.getpwnam(_expected_user())
    bystander = await asyncio.create_subprocess_exec(
        "sleep", "60", user=user.pw_uid, group=user.pw_gid
    )
    try:
        _, _, rest = lock.partition("\n")
        (directory / "cluster" / "postmaster.pid").write_text(f"{bystander.pid}\n{rest}")
        async with PostgresServer(directory) as server:
            assert await _execute(server, "select 1") == 1
        assert bystander.returncode is None
    finally:
        bystander.kill()
        await bystander.wait()


async def test_a_taken_port_is_given_up_for_another(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offers = [[taken.getsockname()[1]]]

        def ports(count: int) -> list[int]:
            from worker.free_ports import free_ports

            return offers.pop() if offers else free_ports(count)

        monkeypatch.setattr("worker.postgres_server.free_ports", ports)
        async with PostgresServer(directory, durable=False) as server:
            assert await _execute(server, "select 1") == 1
        assert offers == []


async def test_a_cluster_that_another_version_wrote_is_refused(directory: Path) -> None:
    async with PostgresServer(directory, durable=False):
        pass
    (directory / "cluster" / "PG_VERSION").write_text("16\n")
    with pytest.raises(PostgresUnavailable, match="written by PostgreSQL 16 and this is"):
        async with PostgresServer(directory):
            pass


async def test_a_cluster_that_was_left_half_made_is_made_again(directory: Path) -> None:
    (directory / "cluster.new").mkdir(parents=True)
    (directory / "cluster.new" / "PG_VERSION").write_text("18\n")
    async with PostgresServer(directory, durable=False) as server:
        assert await _execute(server, "select 1") == 1
    assert not (directory / "cluster.new").exists()


async def test_programs_out_of_reach_are_copied_whole_and_once(
    directory: Path, cache: Path
) -> None:
    programs = copied_programs(installed_package(), cache)
    assert programs.is_relative_to(cache)
    assert copied_programs(installed_package(), cache) == programs
    assert len(os.listdir(cache)) == 1
    async with PostgresServer(directory, durable=False, programs=programs) as server:
        await _execute(server, "create extension vector")


async def test_leaving_by_cancellation_stops_it(directory: Path) -> None:
    started = asyncio.Event()

    async def hold() -> None:
        async with PostgresServer(directory, durable=False):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def _expected_user() -> str:
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED_USERS if name in names)


def _owner(pid: int) -> str:
    return pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid).pw_name


def _modes_above(directory: Path) -> list[tuple[int, int]]:
    return [(folder.stat().st_mode, folder.stat().st_uid) for folder in directory.parents]


async def _execute(server: PostgresServer, statement: str) -> object:
    connection = await asyncpg.connect(server.database_url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()
