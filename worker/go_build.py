"""Programs built once with Go into a cache folder, with progress while it lasts.

One process builds at a time, and a program gets its name when it is complete, so a killed build
leaves nothing that looks finished.
"""

import asyncio
import contextlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from worker.errors import BuildFailed
from worker.file_lock import file_lock

BUILD_SECONDS = 1800.0
REPORT_SECONDS = 10.0
KEPT_OUTPUT_LINES = 8

Report = Callable[[str], None]


async def build_program(package: str, module: Path, target: Path, report: Report) -> Path:
    """Build a main package of a pinned module, whose `go.sum` decides the version of everything."""
    options = ("-v", "-mod=readonly", "-buildvcs=false", "-ldflags=-s -w")
    return await _make(target, ["build", *options, "-o", "{out}/", package], module, report)


async def install_program(package_at_version: str, target: Path, report: Report) -> Path:
    """`go install` of a published program."""
    return await _make(target, ["install", "-v", package_at_version], None, report)


def is_program(path: Path) -> bool:
    return os.access(path, os.X_OK) and path.is_file()


async def _make(
    target: Path, arguments: Sequence[str], module: Path | None, report: Report
) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    async with file_lock(target.with_name(f"{target.name}.lock")):
        if not is_program(target):
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                await _run_go(arguments, module, Path(folder), f"Building {target.name}", report)
                _publish(Path(folder), target)
    return target


def _publish(folder: Path, target: Path) -> None:
    [program] = folder.iterdir()
    program.rename(target)


async def _run_go(
    arguments: Sequence[str], module: Path | None, out: Path, what: str, report: Report
) -> None:
    process = await asyncio.create_subprocess_exec(
        "go",
        *(each.replace("{out}", str(out)) for each in arguments),
        cwd=module or out,
        env=os.environ | {"CGO_ENABLED": "0", "GOBIN": str(out)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(BUILD_SECONDS):
            last_lines = await _follow(process, what, report)
            code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    if code:
        raise BuildFailed(f"`go {arguments[0]}` failed: {' / '.join(last_lines)}")


async def _follow(process: asyncio.subprocess.Process, what: str, report: Report) -> list[str]:
    """Tell every few seconds how far Go is, and return the end of what it said."""
    assert process.stdout is not None
    begun = time.monotonic()
    steps, last_lines = 0, deque[str](["preparing"], maxlen=KEPT_OUTPUT_LINES)
    report(f"{what} with Go; the first time this takes some minutes")
    while True:
        until_report = asyncio.timeout(REPORT_SECONDS)
        try:
            async with until_report:
                while line := await process.stdout.readline():
                    steps += 1
                    last_lines.append(line.decode(errors="replace").strip())
            return list(last_lines)
        except TimeoutError:
            if not until_report.expired():
                raise
            seconds = time.monotonic() - begun
            report(f"{what} with Go: {steps} steps in {seconds:.0f} s, last {last_lines[-1]}")
