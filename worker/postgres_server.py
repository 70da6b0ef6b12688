"""A PostgreSQL of our own: a cluster in one folder, a child process, on loopback only."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import asyncpg

from worker.child_process import ChildProcess
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK, free_ports
from worker.postgres_cluster import ROLE, PostgresCluster

DATABASE = "durable_context"
RECOVERY_SECONDS = 120.0
START_ATTEMPTS = 60
RETRY_SECONDS = 0.25
POLL_SECONDS = 0.02
# SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one, which recovers at the next start.
STOP_STEPS = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0))
# For clusters that are thrown away: a lost write after a power cut costs nothing there.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


class PostgresServer:
    """`async with PostgresServer(directory) as postgres: postgres.database_url`.

    The folder keeps cluster and password, so data survives a restart; the port is another one each
    time. The caller sees to it that the folder has one owner at a time (`DataDirectory`).
    `programs` is a folder with `initdb` and `postgres`; without it they come from the wheel.
    """

    def __init__(
        self,
        directory: Path,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
    ) -> None:
        self._cluster = PostgresCluster(directory, programs=programs, durable=durable)
        self._settings = ({} if durable else NOT_DURABLE) | dict(settings or {})
        self._child: ChildProcess | None = None
        self.port = 0

    @property
    def database_url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """The address of any database of this cluster; the role in it is a superuser."""
        password = self._cluster.password
        return f"postgresql://{ROLE}:{password}@{LOOPBACK}:{self.port}/{quote(database, safe='')}"

    async def __aenter__(self) -> Self:
        try:
            await self._cluster.make()
            await self._start()
            await self._make_database()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()

    async def failed(self) -> ChildFailed:
        """Waits until the server ends by itself."""
        assert self._child is not None
        return await self._child.failed()

    async def _start(self) -> None:
        # It ends at once while the processes of a killed server are leaving, or when somebody
        # else was faster to take the port.
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                return await self._start_once()
            except ChildFailed:
                if attempt == START_ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_SECONDS)

    async def _start_once(self) -> None:
        [self.port] = free_ports(1)
        child = self._child = ChildProcess(
            "postgres",
            self._cluster.server_command(*self._options()),
            directory=self._cluster.directory,
            stop_steps=STOP_STEPS,
        )
        try:
            await child.start()
            await self._until_it_answers(child)
        except BaseException:
            await child.stop()
            raise

    def _options(self) -> list[str]:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    async def _until_it_answers(self, child: ChildProcess) -> None:
        for _ in range(int(RECOVERY_SECONDS / POLL_SECONDS)):
            child.check_running()
            try:
                connection = await asyncpg.connect(self.url_of("postgres"), timeout=2)
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(POLL_SECONDS)
            else:
                return await connection.close()
        raise child.failure(f"did not answer within {RECOVERY_SECONDS:.0f} seconds")

    async def _make_database(self) -> None:
        connection = await asyncpg.connect(self.url_of("postgres"))
        try:
            if not await connection.fetchval(
                "select true from pg_catalog.pg_database where datname = $1", DATABASE
            ):
                await connection.execute("create database durable_context")
        finally:
            await connection.close()
