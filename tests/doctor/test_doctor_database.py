"""`durable-context doctor` and the database: each thing that is not well, and how to mend it."""

from collections.abc import AsyncIterator
from typing import TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from durable_context import ContextClient
from durable_context.doctor.database import database_diagnoses
from tests.doctor.conftest import Examine, said, states
from tests.turns import numbered
from worker.postgres_server import PostgresServer

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
DATABASE = {"database", "migrations", "role", "pgvector", "clock"}
UPKEEP = {"pauses", "backlog", "compactions", "damage"}


@pytest.fixture
async def empty_url(postgres: PostgresServer) -> AsyncIterator[str]:
    """A database without our schema."""
    name = f"empty_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name}")
    yield postgres.url_of(name)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


@pytest.fixture
async def role(database_url: str, connection: Connection) -> AsyncIterator[str]:
    """The URL of a role without rights."""
    name = f"weak_{uuid4().hex}"
    await connection.execute(f"create role {name} login password 'secret'")
    address = urlsplit(database_url).netloc.rpartition("@")[2]
    yield f"postgresql://{name}:secret@{address}{urlsplit(database_url).path}"
    await connection.execute(f"drop owned by {name}; drop role {name}")


async def test_a_database_of_this_version_is_well(examine: Examine):
    seen = await examine("--json")
    of_database = {name: state for name, state in states(seen).items() if name in DATABASE | UPKEEP}
    assert of_database == dict.fromkeys(DATABASE | UPKEEP, "ok")
    assert said(seen, "database")[0].startswith("PostgreSQL ")
    assert "superuser, which is not needed" in said(seen, "role")[0]


async def test_without_a_database_the_other_checks_go_on(examine: Examine):
    down = "postgresql://me:s3cret@127.0.0.1:1/context"
    seen = await examine("--json", DURABLE_CONTEXT_DATABASE_URL=down)
    assert seen.code == 1
    assert states(seen)["database"] == "failed" and states(seen)["temporal"] == "ok"
    assert not states(seen).keys() & (DATABASE | UPKEEP) - {"database"}
    message, mend = said(seen, "database")
    assert "cannot connect to the database at 127.0.0.1:1" in message and "DATABASE_URL" in mend
    assert "s3cret" not in seen.out + seen.errors
    unnamed = await examine("--json", DURABLE_CONTEXT_DATABASE_URL=None)
    assert said(unnamed, "database")[0] == "no database was named"
    broken = await examine("--json", DURABLE_CONTEXT_DATABASE_URL="postgresql://me:s3c[ret@x")
    assert broken.code == 1 and "s3c[ret" not in broken.out + broken.errors


async def test_migrations_that_are_missing_come_with_the_command(
    examine: Examine, empty_url: str, connection: Connection
):
    seen = await examine("--json", DURABLE_CONTEXT_DATABASE_URL=empty_url)
    assert seen.code == 1 and states(seen)["database"] == "ok"
    message, mend = said(seen, "migrations")
    assert message == "the database has no durable_context schema"
    assert "python -m durable_context.migrations" in mend
    assert not states(seen).keys() & UPKEEP
    await connection.execute("delete from durable_context.migrations where name >= '0008'")
    seen = await examine("--json")
    assert seen.code == 1
    assert said(seen, "migrations")[0].startswith("missing: 0008_offloaded.sql, 0009_control.sql")


async def test_a_schema_of_a_newer_version_is_told(examine: Examine, connection: Connection):
    await connection.execute("insert into durable_context.migrations values ('0999_later.sql')")
    seen = await examine("--json")
    assert states(seen)["migrations"] == "warning"
    assert said(seen, "migrations") == (
        "the schema is newer than this version: 0999_later.sql",
        "upgrade durable-context here",
    )


async def test_a_role_without_rights_comes_with_the_grants(
    examine: Examine, role: str, connection: Connection
):
    name = urlsplit(role).username
    expected = [
        ("may not use the schema", f'grant usage on schema durable_context to "{name}"'),
        ("may not use artifact_contents", "grant select, insert, update, delete on all tables in"),
        (f"{name} may use all of it", ""),
    ]
    for message, grant in expected:
        seen = await examine("--json", DURABLE_CONTEXT_DATABASE_URL=role)
        assert message in said(seen, "role")[0]
        mend = said(seen, "role")[1]
        assert grant in mend
        await connection.execute(mend or "select")
    assert states(seen)["backlog"] == "ok"
    await connection.execute("revoke execute on function durable_context.note_event from public")
    seen = await examine("--json", DURABLE_CONTEXT_DATABASE_URL=role)
    assert said(seen, "role")[0] == f"{name} may not call note_event"
    assert states(seen).keys().isdisjoint(UPKEEP)
    await connection.execute(said(seen, "role")[1])
    well = states(await examine("--json", DURABLE_CONTEXT_DATABASE_URL=role))
    assert {well["role"], well["backlog"], well["damage"]} == {"ok"}


@pytest.mark.parametrize(("seconds", "which"), [(-90, "behind"), (90, "ahead of")])
async def test_a_clock_that_is_wrong_is_told(
    database_url: str, connection: Connection, seconds: int, which: str
):
    await connection.execute(
        "create schema wrong; create function wrong.clock_timestamp() returns timestamptz"
        f" language sql return pg_catalog.clock_timestamp() + interval '{seconds} s'"
    )
    settings = {"search_path": "wrong, pg_catalog"}
    async with asyncpg.create_pool(
        database_url, server_settings=settings, min_size=1, max_size=1
    ) as pool:
        found = {one.check: one for one in await database_diagnoses(pool)}
    assert found["clock"].state == "warning"
    assert found["clock"].message == f"the database is 90.0 s {which} this machine"


async def test_branches_that_wait_for_an_hour_are_counted(
    examine: Examine, client: ContextClient, connection: Connection
):
    for name in ("late", "paused"):
        branch = await client.open_branch(name)
        for turn in range(1, 10):
            await branch.record_turn(numbered(turn))
    await branch.pause()
    assert states(await examine("--json"))["backlog"] == "ok"
    await connection.execute("alter table durable_context.turns disable trigger immutable")
    await connection.execute(
        "update durable_context.turns set recorded_at = recorded_at - interval '61 minutes'"
    )
    seen = await examine("--json")
    assert states(seen)["backlog"] == "warning"
    message, mend = said(seen, "backlog")
    assert message == "1 branches wait for compaction for more than an hour"
    assert "schedules trigger catch-up" in mend
    assert said(seen, "pauses")[0] == "the tenant is not paused; 1 branches are"


async def test_a_paused_tenant_is_told_with_its_reason(examine: Examine, client: ContextClient):
    await client.pause("models are down")
    seen = await examine("--json")
    assert states(seen)["pauses"] == "warning"
    assert said(seen, "pauses")[0].endswith("UTC: models are down")
    assert "durable-context resume" in said(seen, "pauses")[1]
    assert states(await examine("--json", "--tenant", "other"))["pauses"] == "ok"


async def test_compactions_that_fail_or_degrade_point_to_the_summarizer(
    examine: Examine, client: ContextClient, connection: Connection
):
    branch = await client.open_branch("talk")
    insert = (
        "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn, status,"
        " reason, error) select 'default', $1, n, n, $2, 'turn', $3 from generate_series($4::int,"
        " $5::int) n"
    )
    await connection.execute(insert, branch.branch_uuid, "completed", None, 1, 20)
    assert states(await examine("--json"))["compactions"] == "ok"
    await connection.execute(
        "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
        " recipe, input_hash, headline, text, token_count, input_tokens, covered_tokens, made_by,"
        " degraded, state) select 'default', $1, 0, n, n, 'model', sha256('x'), 'h', 't', 1, 1, 1,"
        " 'extractive', true, 'current' from generate_series(1, 4) n",
        branch.branch_uuid,
    )
    seen = await examine("--json")
    assert states(seen)["compactions"] == "warning"
    assert said(seen, "compactions")[0] == "of 20 in the last day 0 failed and 4 were degraded"
    assert "schedules trigger upgrade" in said(seen, "compactions")[1]
    await connection.execute(insert, branch.branch_uuid, "failed", "no such model", 30, 39)
    seen = await examine("--json")
    assert said(seen, "compactions")[0].endswith("the newest failure: no such model")
    assert "DURABLE_CONTEXT_SUMMARIZERS" in said(seen, "compactions")[1]


async def test_damage_that_stands_fails(
    examine: Examine, client: ContextClient, connection: Connection
):
    branch = await client.open_branch("talk")
    await branch.record_turn(numbered(1))
    await connection.execute("update durable_context.branches set head_tokens = 1")
    await branch.verify()
    seen = await examine("--json")
    assert seen.code == 1
    assert said(seen, "damage")[0] == "1 findings in 1 branches stand"
    assert "durable-context verify" in said(seen, "damage")[1]


async def test_a_client_examines_itself(client: ContextClient):
    checkup = await client.doctor()
    assert checkup.failed == 0
    assert {one.check for one in checkup.diagnoses if one.state == "warning"} == {"temporal"}
