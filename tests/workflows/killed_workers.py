"""Workers in processes of their own that die without a word."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.workflows.worker_process import RUNNING, WorkerSetup

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """`tests.workflows.worker_process`, running."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def said(self, line: str) -> None:
        """Waits until it says so."""
        assert self._process.stdout is not None
        while heard := await self._process.stdout.readline():
            if heard.decode().strip() == line:
                return
        raise AssertionError(f"the worker ended before it said {line!r}")

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def worker_process(setup: WorkerSetup) -> AsyncIterator[WorkerProcess]:
    """Killed at the end of the block, if not before."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.workflows.worker_process", setup.model_dump_json()),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    worker = WorkerProcess(process)
    try:
        await worker.said(RUNNING)
        yield worker
    finally:
        await worker.kill()
