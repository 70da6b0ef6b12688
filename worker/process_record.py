"""A child's pid on disk, with its start time, so that the next owner ends what a killed owner left.

A pid alone is not enough: it may belong to another process by then, which must not be touched.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

StopSteps = tuple[tuple[signal.Signals, float], ...]
"""Signals to send one after the other, and how many seconds to wait after each."""

STOP_STEPS: StopSteps = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 10.0))
POLL_SECONDS = 0.02
SUFFIX = ".pid"


class ProcessRecord(BaseModel):
    """Says which process it is, and how to end it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    started: str
    stop_steps: StopSteps = STOP_STEPS

    @classmethod
    def of(cls, pid: int, stop_steps: StopSteps = STOP_STEPS) -> "ProcessRecord | None":
        """The process that has this pid now; None when there is none, or only a zombie."""
        started = _start_time(pid)
        return None if started is None else cls(pid=pid, started=started, stop_steps=stop_steps)

    @classmethod
    def read(cls, path: Path) -> "ProcessRecord | None":
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def write(self, path: Path) -> None:
        complete = path.with_suffix(".new")
        complete.write_text(self.model_dump_json())
        complete.replace(path)

    @staticmethod
    def forget(path: Path) -> None:
        path.unlink(missing_ok=True)

    def is_running(self) -> bool:
        return _start_time(self.pid) == self.started


async def end_leftovers(directory: Path) -> None:
    """End every process that is recorded in the folder and still runs."""
    for path in _records(directory):
        await end_leftover(path)


def _records(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{SUFFIX}"))


async def end_leftover(path: Path) -> int | None:
    """End the recorded process if it still runs; its pid if it did."""
    record = ProcessRecord.read(path)
    if record is None or not record.is_running():
        ProcessRecord.forget(path)
        return None
    for signal_number, seconds in record.stop_steps:
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal_number)
        if await _gone(record, seconds):
            break
    ProcessRecord.forget(path)
    return record.pid


async def _gone(record: ProcessRecord, seconds: float) -> bool:
    # Not our child, so there is nothing to wait on: its owner was killed.
    for _ in range(int(seconds / POLL_SECONDS)):
        if not record.is_running():
            return True
        await asyncio.sleep(POLL_SECONDS)
    return not record.is_running()


def _start_time(pid: int) -> str | None:
    if not Path("/proc/self/stat").exists():
        return _start_time_from_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in brackets and may itself hold brackets and blanks.
    state, *fields = stat.rpartition(")")[2].split()
    if state in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{fields[18]}"


def _start_time_from_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None
