"""Branches with something of everything, and the means to damage them."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias
from uuid import uuid4

import asyncpg
import pytest
from typer.testing import CliRunner

from durable_context import Branch, ContextClient, ContextEvent
from durable_context.artifacts.contents import ContentStore
from durable_context.cli import app
from durable_context.database import create_pool
from durable_context.verification.findings import Finding, Verified
from tests.cli.running import Ended, Run
from tests.compacting import compact_all
from tests.conftest import TEMPLATE
from tests.exports import INLINE_LIMIT, POLICY, eventful
from tests.turns import numbered
from worker.postgres_server import PostgresServer

Damage: TypeAlias = Callable[..., Awaitable[None]]


class Harbour(NamedTuple):
    """A database, and the object store of its contents of over 20,000 bytes."""

    database: str
    objects: Path


@pytest.fixture(scope="session")
async def harbour(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Harbour:
    """A conversation with a branch of 15 turns, compacted up to turn 10, and a child, forked at
    turn 13, with a leaf of its own.
    """
    made = Harbour(f"harbour_{uuid4().hex}", tmp_path_factory.mktemp("objects"))
    await _copy(postgres, TEMPLATE, made.database)
    url = postgres.url_of(made.database)
    pool = await create_pool(url)
    async with pool, await _connect(url, made.objects) as client:
        branch = await eventful(client, pool)
        child = await branch.fork("child", at_turn=13)
        for turn in range(14, 18):
            await child.record_turn(numbered(turn))
        await compact_all(pool, child.branch_uuid, POLICY)
    return made


@pytest.fixture
async def database_url(postgres: PostgresServer, harbour: Harbour) -> AsyncIterator[str]:
    name = f"test_{uuid4().hex}"
    await _copy(postgres, harbour.database, name)
    yield postgres.url_of(name)
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


@pytest.fixture
def objects(harbour: Harbour, tmp_path: Path) -> Path:
    """A copy of the object store."""
    return shutil.copytree(harbour.objects, tmp_path / "objects")


@pytest.fixture
def contents(objects: Path) -> ContentStore:
    return ContentStore(objects.as_uri(), inline_limit=INLINE_LIMIT)


@pytest.fixture
async def client(database_url: str, objects: Path) -> AsyncIterator[ContextClient]:
    async with await _connect(database_url, objects) as client:
        yield client


@pytest.fixture
def durable_context(database_url: str, objects: Path) -> Run:
    """Runs `durable-context` with this database and object store in the environment."""

    async def run(*arguments: str) -> Ended:
        environment = {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_ARTIFACT_URL": objects.as_uri(),
        }
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.find_branch("harbour")


@pytest.fixture
async def child(client: ContextClient) -> Branch:
    return await client.find_branch("harbour", "child")


@pytest.fixture
async def damage(connection: "asyncpg.Connection[asyncpg.Record]") -> Damage:
    """Runs a statement that no trigger and no foreign key refuses. $1 is the branch."""

    async def run(statement: str, branch: Branch) -> None:
        await connection.execute("set session_replication_role = replica")
        try:
            done = await connection.execute(statement, branch.branch_uuid)
        finally:
            await connection.execute("set session_replication_role = origin")
        assert not done.endswith(" 0"), done

    return run


async def verified(client: ContextClient) -> list[Verified]:
    return [one async for one in client.verify()]


async def findings(client: ContextClient) -> list[Finding]:
    return [finding for one in await verified(client) for finding in one.findings]


async def told(branch: Branch) -> list[ContextEvent]:
    return [event async for event in branch.events() if event.kind == "damaged"]


async def _copy(postgres: PostgresServer, template: str, name: str) -> None:
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name} template {template}")
    await admin.close()


async def _connect(url: str, objects: Path) -> ContextClient:
    return await ContextClient.connect(
        url, temporal=None, artifact_url=objects.as_uri(), inline_limit=INLINE_LIMIT
    )
