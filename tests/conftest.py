"""Real parts for every test: one PostgreSQL and one Temporal server a session."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from durable_context import CompactionPolicy, ContextClient
from durable_context.database import Pool, create_pool
from durable_context.migrations import migrate
from worker.postgres_server import PostgresServer
from worker.settings import EmbeddedSettings
from worker.temporal_binary import ExternalTemporal, find_temporal
from worker.temporal_server import TemporalServer

TEMPLATE = "durable_context_template"


@pytest.fixture(scope="session")
async def postgres(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PostgresServer]:
    """A server of our own whose template database is migrated."""
    directory = tmp_path_factory.mktemp("postgres")
    async with PostgresServer(directory, durable=False) as server:
        await _execute(server.url_of("postgres"), f"create database {TEMPLATE}")
        await migrate(server.url_of(TEMPLATE))
        yield server


@pytest.fixture
async def database_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """A migrated database that no other test sees."""
    name = f"test_{uuid4().hex}"
    admin = postgres.url_of("postgres")
    await _execute(admin, f"create database {name} template {TEMPLATE}")
    yield postgres.url_of(name)
    await _execute(admin, f"drop database {name} with (force)")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    pool = await create_pool(database_url)
    yield pool
    await pool.close()


@pytest.fixture
async def connection(
    database_url: str,
) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """A plain connection, for looking at what is stored."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[ContextClient]:
    """A client that records without hints."""
    async with await ContextClient.connect(database_url, temporal=None) as client:
        yield client


@pytest.fixture
async def make_client(
    database_url: str,
) -> "AsyncIterator[Callable[..., object]]":
    """Clients of the test's database, by the arguments of `ContextClient.connect`."""
    made: list[ContextClient] = []

    async def make(policy: CompactionPolicy | None = None, **options: object) -> ContextClient:
        options = {"temporal": None} | options
        client = await ContextClient.connect(database_url, policy=policy, **options)  # type: ignore[arg-type]
        made.append(client)
        return client

    yield make
    for client in made:
        await client.close()


@pytest.fixture(scope="session")
async def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A Temporal server: the one TEMPORAL_ADDRESS names, or one of our own."""
    source = await find_temporal(EmbeddedSettings.from_env(os.environ), _tell)
    if isinstance(source, ExternalTemporal):
        yield source.address
        return
    directory = tmp_path_factory.mktemp("temporal")
    async with TemporalServer(directory, source, ui=False) as server:
        from durable_context.compaction.requests import register_search_attributes

        client = await _connect(server.address)
        await register_search_attributes(client)
        yield server.address


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


async def _connect(address: str) -> Client:
    return await Client.connect(address, data_converter=pydantic_data_converter)


@pytest.fixture(scope="session")
async def temporal(temporal_address: str) -> Client:
    return await _connect(temporal_address)


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def database_name(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


_status = 0


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    global _status
    _status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave without the interpreter's own teardown.

    A process that ran Temporal workers dies of SIGABRT there about every other time
    (PyGILState_Release), which would turn a passed run into a failed one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status)
