"""One child process in a session of its own, recorded on disk before it runs its first instruction.

Its own session keeps the terminal's Ctrl-C away: the owner decides who stops first.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd
from typing import Any, BinaryIO

from worker.errors import ChildFailed
from worker.process_record import STOP_STEPS, SUFFIX, ProcessRecord, StopSteps, end_leftover

LOG_TAIL_BYTES = 4000
# The shell waits for a line before it becomes the program; a killed owner closes the pipe and the
# program never starts. So there is no moment at which it runs and no record of it exists.
WAIT_THEN_EXEC = 'read -r go || exit 1; exec "$@" </dev/null'


# Servers need no secret of ours, and a variable meant for our own client can stop theirs.
PASSED_ON = ("PATH", "HOME", "TMPDIR", "TZ", "LANG")


def bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


@dataclass(frozen=True)
class Command:
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=bare_environment)
    directory: Path | None = None
    user: struct_passwd | None = None


class ChildProcess:
    """Started once, stopped once; `record` and `log` are files in the owner's data directory."""

    def __init__(
        self,
        name: str,
        command: Command,
        *,
        directory: Path,
        stop_steps: StopSteps = STOP_STEPS,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._record = directory / f"{name}{SUFFIX}"
        self._command = command
        self._stop_steps = stop_steps
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    async def start(self) -> None:
        await end_leftover(self._record)
        process = self._process = await self._spawn()
        record = ProcessRecord.of(process.pid, self._stop_steps)
        if record is not None:
            record.write(self._record)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            await process.stdin.drain()
            process.stdin.close()

    async def stop(self) -> None:
        """Idempotent; returns when the process is gone."""
        process = self._process
        if process is None:
            return
        try:
            await self._end(process)
        except BaseException:
            # The owner is told a second time to stop: no more patience with this one.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        ProcessRecord.forget(self._record)

    async def wait(self) -> int:
        return await self._running().wait()

    async def failed(self) -> ChildFailed:
        """Waits until the process ends; for processes that never should."""
        code = await self.wait()
        return self.failure(f"ended with exit code {code}", exit_code=code)

    def check_running(self) -> None:
        code = self._running().returncode
        if code is not None:
            raise self.failure(f"ended with exit code {code}", exit_code=code)

    def failure(self, what: str, *, exit_code: int | None = None) -> ChildFailed:
        return ChildFailed(self.name, what, self.log, self.log_tail(), exit_code=exit_code)

    def log_tail(self) -> str:
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").strip()
        return ""

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        for signal_number, seconds in self._stop_steps:
            if process.returncode is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal_number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self._fresh_log() as log:
            return await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", WAIT_THEN_EXEC, "sh", *self._command.arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(self._command.environment),
                cwd=self._command.directory,
                umask=0o077,
                start_new_session=True,
                **_identity(self._command.user),
            )

    def _fresh_log(self) -> BinaryIO:
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.previous"))
        return self.log.open("xb")

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process


def _identity(user: struct_passwd | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
