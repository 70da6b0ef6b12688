"""The command line as users have it, on a database of the test's."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from durable_context.cli import app
from tests.cli.running import Ended, Run


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
