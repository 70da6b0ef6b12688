"""Looks at processes from outside: which belong to a data directory, and when they are gone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def processes_of(directory: Path) -> dict[int, str]:
    """Live processes that run in the folder or write a log there, by pid, with their command."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and any(
            _is_inside(entry / link, directory) for link in ("cwd", "fd/1")
        ):
            found[int(entry.name)] = _command_of(entry)
    return found


def is_gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until_gone(pids: Iterable[int]) -> None:
    for pid in list(pids):
        await until(lambda pid=pid: is_gone(pid))


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """For what sends no event: processes that are not our children, and files."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about in time")


class Owner:
    """A program of its own that holds an embedded stack until it is told to stop."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self._arguments = arguments
        self._environment = os.environ | (environment or {})
        self.process: asyncio.subprocess.Process

    async def __aenter__(self) -> "Owner":
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            cwd=CHECKOUT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def until_it_says(self, words: str) -> str:
        """All it said up to the line with these words."""
        said = ""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            async for line in self.process.stdout:
                said += line.decode()
                if words in said:
                    return said
        raise AssertionError(f"it ended without saying {words!r}; it said:\n{said}")

    async def end(self, signal_number: signal.Signals) -> int:
        self.process.send_signal(signal_number)
        async with asyncio.timeout(60):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode


def _is_inside(link: Path, directory: Path) -> bool:
    try:
        return Path(os.readlink(link)).is_relative_to(directory)
    except OSError:  # it ended meanwhile, or is not ours to look at
        return False


def _command_of(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""
