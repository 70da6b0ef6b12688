"""A Temporal server of our own on loopback, with its UI; its history survives in one folder."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionRequest,
    RegisterNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from worker.child_process import ChildProcess
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK
from worker.temporal_programs import NAMESPACE, TemporalPorts, TemporalSoftware

START_ATTEMPTS = 3
START_SECONDS = 90.0
POLL_SECONDS = 0.03
RETENTION = Duration(seconds=3 * 24 * 3600)
STOP_STEPS = ((signal.SIGTERM, 15.0), (signal.SIGKILL, 10.0))


class TemporalServer:
    """`async with TemporalServer(directory, source) as temporal: temporal.address`.

    `source` is what `find_temporal` found. The caller sees to it that the folder has one owner at a
    time (`DataDirectory`): two servers open the same database without complaint.
    """

    namespace = NAMESPACE

    def __init__(self, directory: Path, source: TemporalSoftware, *, ui: bool = True) -> None:
        self._directory = directory.absolute()
        self._source = source
        self._ui = ui
        self._ports = TemporalPorts.free()
        self._children: list[ChildProcess] = []

    @property
    def address(self) -> str:
        return self._ports.address

    @property
    def ui_url(self) -> str | None:
        return f"http://{LOOPBACK}:{self._ports.ui}" if self._ui else None

    async def __aenter__(self) -> Self:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._drop_half_made_database()
        # A port may be taken between choosing and using it.
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await self._start_once()
                break
            except ChildFailed:
                if attempt == START_ATTEMPTS:
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
        await asyncio.gather(*(child.stop() for child in self._children))

    async def failed(self) -> ChildFailed:
        """Waits until one of the processes ends by itself."""
        waiting = [asyncio.ensure_future(child.failed()) for child in self._children]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in waiting:
                each.cancel()

    async def _start_once(self) -> None:
        self._ports = TemporalPorts.free()
        commands = self._source.commands(self._directory, self._ports, ui=self._ui)
        self._children = [
            ChildProcess(name, command, directory=self._directory, stop_steps=STOP_STEPS)
            for name, command in commands.items()
        ]
        try:
            server, *uis = self._children
            await server.start()
            await self._until(server, self._answers)
            self._complete.touch()
            # Only now: a UI that finds no server waits for seconds before it looks again.
            for child in uis:
                await child.start()
            if self._ui:
                await self._until(self._children[-1], self._shows)
        except BaseException:
            await self.stop()
            raise

    async def _until(self, child: ChildProcess, ready: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(int(START_SECONDS / POLL_SECONDS)):
            child.check_running()
            if await ready():
                return
            await asyncio.sleep(POLL_SECONDS)
        raise child.failure(f"did not answer within {START_SECONDS:.0f} seconds")

    async def _answers(self) -> bool:
        try:
            client = await Client.connect(self.address, namespace=self.namespace)
            await _register_namespace(client)
            await _use_matching(client)
            await _use_history(client)
        except (RuntimeError, RPCError):
            return False
        return True

    async def _shows(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, self._ports.ui)
        except OSError:
            return False
        writer.close()
        return True

    @property
    def _complete(self) -> Path:
        return self._directory / f"{self._source.database}.complete"

    def _drop_half_made_database(self) -> None:
        # The first start makes table after table; killed in between, it would never start again.
        if not self._complete.exists():
            for file in self._directory.glob(f"{self._source.database}*"):
                file.unlink()


async def _register_namespace(client: Client) -> None:
    request = RegisterNamespaceRequest(
        namespace=client.namespace, workflow_execution_retention_period=RETENTION
    )
    try:
        await client.workflow_service.register_namespace(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            raise


async def _use_matching(client: Client) -> None:
    await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name="ready"),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )


async def _use_history(client: Client) -> None:
    request = DescribeWorkflowExecutionRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id="ready")
    )
    try:
        await client.workflow_service.describe_workflow_execution(request)
    except RPCError as error:
        # What a history service that is up says of a workflow nobody started.
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
