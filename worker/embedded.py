"""PostgreSQL, Temporal and a worker, all real, started and stopped together under one lock."""

import asyncio
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from temporalio.client import Client

from durable_context.artifacts.object_store import URL_VARIABLE
from durable_context.compaction.search_attributes import register_search_attributes
from durable_context.compaction.temporal_calls import connect
from durable_context.migrations import migrate
from durable_context.summarizers.chain import summarizer_from_specs
from worker.data_directory import DataDirectory
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK
from worker.go_build import Report
from worker.postgres_server import PostgresServer
from worker.process_record import end_leftovers
from worker.settings import EXTRACTIVE, EmbeddedSettings, with_temporal
from worker.telemetry_settings import of_a_child
from worker.temporal_binary import ExternalTemporal, TemporalSource, find_temporal
from worker.temporal_programs import NAMESPACE
from worker.temporal_server import TemporalServer
from worker.termination import Termination
from worker.worker_process import WorkerProcess

# The worker may have one for each of its activities; the rest is for the caller.
POSTGRES_SETTINGS = {"max_connections": "200"}


class EmbeddedStack:
    """`async with EmbeddedStack() as stack: ...`, for development, demos and tests.

    What is recorded survives in `data_dir`, by default DURABLE_CONTEXT_DATA_DIR or a folder of the
    user's; one process at a time may have it. All is stopped at the end of the block: the worker
    first, so that it finishes what it has begun. After a SIGKILL of this process the next start on
    the same folder ends what was left running. While inside, SIGTERM leaves the block, too.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        summarizers: Iterable[str] = (EXTRACTIVE,),
        *,
        ui: bool = True,
        report: Report | None = None,
    ) -> None:
        self._settings = EmbeddedSettings.from_env(os.environ)
        self._directory = DataDirectory(Path(data_dir or self._settings.data_directory))
        self._summarizers = tuple(summarizers)
        summarizer_from_specs(self._summarizers)  # refuses now what the worker would refuse later
        self._ui = ui
        self._report = report or _print
        self._exits = contextlib.AsyncExitStack()
        self._parts: list[PostgresServer | TemporalServer | WorkerProcess] = []
        self.database_url = ""
        self.artifact_url = os.environ.get(URL_VARIABLE) or self._directory.artifacts.as_uri()
        self.temporal_address = ""
        self.temporal_namespace = NAMESPACE
        self.ui_url: str | None = None
        self.worker_url = ""

    @property
    def data_directory(self) -> Path:
        return self._directory.path

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as exits:
            exits.enter_context(Termination())
            directory = exits.enter_context(self._directory)
            for folder in (directory.worker, directory.temporal, directory.postgres):
                await end_leftovers(folder)
            source = await find_temporal(self._settings, self._report)
            await self._start_postgres(exits)
            client = await self._start_temporal(exits, source)
            await migrate(self.database_url)
            await register_search_attributes(client)
            await self._start_worker(exits, source)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._exits.__aexit__(exc_type, exc, traceback)

    async def failed(self) -> ChildFailed:
        """Waits until one of the processes ends by itself."""
        waiting = [asyncio.ensure_future(part.failed()) for part in self._parts]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in waiting:
                each.cancel()

    async def _start_postgres(self, exits: contextlib.AsyncExitStack) -> None:
        server = PostgresServer(self._directory.postgres, settings=POSTGRES_SETTINGS)
        self._parts.append(await exits.enter_async_context(server))
        self.database_url = server.database_url

    async def _start_temporal(
        self, exits: contextlib.AsyncExitStack, source: TemporalSource
    ) -> Client:
        if isinstance(source, ExternalTemporal):
            client = await connect(source.address)
            self.temporal_address, self.ui_url = source.address, source.ui_url
            self.temporal_namespace = client.namespace
            return client
        server = TemporalServer(self._directory.temporal, source, ui=self._ui)
        self._parts.append(await exits.enter_async_context(server))
        self.temporal_address, self.ui_url = server.address, server.ui_url
        return await Client.connect(server.address, namespace=server.namespace)

    async def _start_worker(self, exits: contextlib.AsyncExitStack, source: TemporalSource) -> None:
        environment = of_a_child(os.environ)
        if not isinstance(source, ExternalTemporal):
            environment = with_temporal(environment, self.temporal_address, NAMESPACE)
        environment["DURABLE_CONTEXT_DATABASE_URL"] = self.database_url
        environment[URL_VARIABLE] = self.artifact_url
        environment["DURABLE_CONTEXT_SUMMARIZERS"] = ",".join(self._summarizers)
        worker = WorkerProcess(self._directory.worker, environment)
        self._parts.append(await exits.enter_async_context(worker))
        self.worker_url = f"http://{LOOPBACK}:{worker.health_port}"


def _print(message: str) -> None:
    Console(stderr=True).print(message, markup=False, highlight=False)
