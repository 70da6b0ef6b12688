"""pgvector may be there, come later, live in any schema or be forbidden: migrating never fails."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from durable_context import Branch
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.migrations import migrate, migration_names
from tests.conftest import database_name
from tests.embeddings.conftest import Grow
from tests.events import Connection
from worker.postgres_server import PostgresServer

KEEPS = "select durable_context.keeps_embeddings()"
VECTORS = "select count(*) from durable_context.turn_embeddings where turn_no > 0"


@pytest.fixture
async def url_of_a_plain_role(postgres: PostgresServer) -> AsyncIterator[str]:
    """Of an empty database in which a role without privileges may make schemas."""
    name = f"plain_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create role {name} login password '{name}'")
    await admin.execute(f"create database {name}")
    await admin.execute(f"grant create on database {name} to {name}")
    _, _, address = postgres.url_of(name).rpartition("@")
    yield f"postgresql://{name}:{name}@{address}"
    await admin.execute(f"drop database {name} with (force)")
    await admin.execute(f"drop role {name}")
    await admin.close()


async def test_a_role_that_may_not_create_extensions_goes_without_until_somebody_has(
    url_of_a_plain_role: str, postgres: PostgresServer
) -> None:
    assert await migrate(url_of_a_plain_role) == migration_names()
    connection = await asyncpg.connect(url_of_a_plain_role)
    assert not await connection.fetchval(KEEPS)
    admin = await asyncpg.connect(postgres.url_of(database_name(url_of_a_plain_role)))
    await admin.execute("create schema extensions; create extension vector schema extensions")
    await admin.execute(f"grant usage on schema extensions to {database_name(url_of_a_plain_role)}")
    assert await migrate(url_of_a_plain_role) == []
    assert await connection.fetchval(KEEPS)
    await connection.close()
    await admin.close()


async def test_pgvector_that_moves_to_another_schema_is_found_by_the_next_migration(
    database_url: str,
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    connection: Connection,
) -> None:
    await connection.execute("create schema elsewhere; alter extension vector set schema elsewhere")
    await migrate(database_url)
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    assert await connection.fetchval(VECTORS) == 6


async def test_migrating_again_keeps_the_vectors(
    database_url: str,
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    connection: Connection,
) -> None:
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    await migrate(database_url)
    assert await connection.fetchval(VECTORS) == 6


async def test_an_older_model_is_deleted_leaf_by_leaf_with_its_vectors(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, connection: Connection
) -> None:
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    await connection.execute("delete from durable_context.leaf_signatures where model = 'small'")
    assert await connection.fetchval(VECTORS) == 0
