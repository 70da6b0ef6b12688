"""A production-shaped stack without containers: PostgreSQL, Temporal on it, and workers."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.production.debian_postgres import installed_programs
from tests.production.temporal_on_postgres import TemporalOnPostgres, make_schemas
from worker.postgres_server import PostgresServer
from worker.settings import EmbeddedSettings, with_temporal
from worker.temporal_binary import build_sql_tool, build_temporal_programs
from worker.temporal_server import TemporalServer


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """Under root PostgreSQL runs as another user, who must be able to come here."""
    directory = Path(tempfile.mkdtemp(prefix="durable-context-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
async def postgres(directory: Path) -> AsyncIterator[PostgresServer]:
    """Durable, like production: a separately installed PostgreSQL of the oldest supported major."""
    server = PostgresServer(
        directory / "postgres", programs=installed_programs(), settings={"max_connections": "400"}
    )
    async with server:
        yield server


@pytest.fixture(scope="session")
async def temporal_server(
    directory: Path, postgres: PostgresServer
) -> AsyncIterator[TemporalServer]:
    cache = EmbeddedSettings.from_env(os.environ).temporal_cache
    programs = await build_temporal_programs(cache, _report)
    await make_schemas(await build_sql_tool(cache, _report), postgres)
    source = TemporalOnPostgres(programs.server, postgres)
    async with TemporalServer(directory / "temporal", source, ui=False) as server:
        yield server


@pytest.fixture(scope="session")
async def environment(postgres: PostgresServer, temporal_server: TemporalServer) -> dict[str, str]:
    """What a deployment sets; the deploy step has been run with it."""
    environment = with_temporal(os.environ, temporal_server.address, temporal_server.namespace)
    environment["DURABLE_CONTEXT_DATABASE_URL"] = postgres.database_url
    migrations = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "durable_context.migrations", env=environment
    )
    assert await migrations.wait() == 0
    return environment


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
