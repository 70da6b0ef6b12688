"""The command line as users have it, on a database of the test's."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from durable_context.cli import app

SECONDS = 60


class Ended(NamedTuple):
    code: int
    out: str
    errors: str

    @property
    def figures(self) -> dict[str, Any]:
        """The JSON object on the last line."""
        return json.loads(self.out.splitlines()[-1])


Run = Callable[..., Awaitable[Ended]]


async def run_process(arguments: Sequence[str], environment: dict[str, str]) -> Ended:
    """Runs Python with these arguments."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), errors.decode())


@pytest.fixture
def durable_context(database_url: str) -> Run:
    """Runs `durable-context` with the test's database in the environment.

    In a thread of this process, which spares the start of an interpreter each time.
    """

    async def run(*arguments: str | Path) -> Ended:
        result = await asyncio.to_thread(
            CliRunner().invoke,
            app,
            [str(argument) for argument in arguments],
            env={"DURABLE_CONTEXT_DATABASE_URL": database_url},
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(value: object, name: str = "talk.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return path

    return write
