"""The worker as a child process of an embedded stack.

A process of its own because an interpreter that ran Temporal workers may abort when it exits, and
the exit code of the caller's program is the caller's.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from worker.child_process import ChildProcess, Command
from worker.errors import ChildFailed
from worker.free_ports import LOOPBACK, free_ports
from worker.settings import EXIT_ADDRESS_IN_USE

CHECKOUT = Path(__file__).parent.parent
START_ATTEMPTS = 3
START_SECONDS = 90.0
POLL_SECONDS = 0.05
SHUTDOWN_SECONDS = 20
STOP_STEPS = ((signal.SIGTERM, SHUTDOWN_SECONDS + 10.0), (signal.SIGKILL, 10.0))


class WorkerProcess:
    """`async with`: runs `python -m worker` in this environment until the end of the block."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory.absolute()
        self._environment = environment
        self._child: ChildProcess | None = None
        self.health_port = 0

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    async def __aenter__(self) -> Self:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                await self._start_once()
                break
            except ChildFailed as error:
                if error.exit_code != EXIT_ADDRESS_IN_USE or attempt == START_ATTEMPTS:
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
        """Waits until the worker ends by itself."""
        assert self._child is not None
        return await self._child.failed()

    async def _start_once(self) -> None:
        [port] = free_ports(1)
        self.health_port = port
        child = self._child = ChildProcess(
            "worker", self._command(port), directory=self._directory, stop_steps=STOP_STEPS
        )
        try:
            await child.start()
            await _until_ready(child, port)
        except BaseException:
            await child.stop()
            raise

    def _command(self, port: int) -> Command:
        environment = {
            "DURABLE_CONTEXT_SHUTDOWN_SECONDS": str(SHUTDOWN_SECONDS),
            **self._environment,
            "DURABLE_CONTEXT_HEALTH_ADDRESS": f"{LOOPBACK}:{port}",
        }
        return Command([sys.executable, "-m", "worker"], environment, directory=CHECKOUT)


async def _until_ready(child: ChildProcess, port: int) -> None:
    answer = "no answer"
    for _ in range(int(START_SECONDS / POLL_SECONDS)):
        child.check_running()
        try:
            status, answer = await _get(port, "/ready")
        except (OSError, asyncio.IncompleteReadError, ValueError):
            status = 0
        if status == 200:
            return
        await asyncio.sleep(POLL_SECONDS)
    raise child.failure(f"was not ready within {START_SECONDS:.0f} seconds ({answer})")


async def _get(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), json.dumps(json.loads(body))
    finally:
        writer.close()
