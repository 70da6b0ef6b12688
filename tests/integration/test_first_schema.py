"""A database of the first schema goes on with branches, artifacts and events."""

from collections.abc import AsyncIterator
from importlib import resources
from uuid import UUID, uuid4

import asyncpg
import pytest

from durable_context import Budget, ContextClient
from durable_context.migrations import migrate, migration_names
from tests.events import Connection
from tests.prompts import check_coverage, kinds
from tests.turns import chat, exchange
from worker.postgres_server import PostgresServer

BRANCH = """
insert into durable_context.branches (tenant, conversation_id, branch_id, encoding, text_search)
values ('default', 'c', 'main', 'o200k_base', 'english') returning branch_uuid
"""
# As the library of that time recorded: continues, then whether it begins with a user message.
RECORD = """
select turn_no from durable_context.record_turn(
    'default', $1, $2::text, sha256(convert_to($2, 'UTF8')), null, $3, '{7}', null, 7, 7,
    'complete', $4, $5, ' Said something.' || chr(10), 6, '[]', $2::text,
    null, null, null, null, null, null)
"""
USER, STEP = '[{"role":"user","content":"go on"}]', '[{"role":"assistant","content":"done"}]'
TURNS = [
    (USER, False, True),
    (USER, True, True),
    (STEP, True, False),
    (STEP, False, False),
    (STEP, True, False),
    (USER, True, True),
    (STEP, True, False),
]
"""Messages, whether the run goes on, whether it begins with a user message."""


@pytest.fixture
async def url(postgres: PostgresServer) -> AsyncIterator[str]:
    name = f"first_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name}")
    yield postgres.url_of(name)
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


async def _record_in_the_first_schema(connection: Connection) -> UUID:
    files = resources.files("durable_context.migrations")
    await connection.execute(
        "create schema durable_context; create table durable_context.migrations"
        " (name text primary key, applied_at timestamptz not null default clock_timestamp())"
    )
    await connection.execute(files.joinpath("0001_initial.sql").read_text(encoding="utf-8"))
    await connection.execute("insert into durable_context.migrations values ('0001_initial.sql')")
    branch_uuid = await connection.fetchval(BRANCH)
    for number, (messages, continues, begins) in enumerate(TURNS, 1):
        key = f"turn {number}"
        turn = (branch_uuid, key, messages, continues, begins)
        assert await connection.fetchval(RECORD, *turn) == number
    return branch_uuid


async def test_turns_of_the_first_schema_can_be_forked_and_gone_on_from(url: str):
    connection = await asyncpg.connect(url)
    branch_uuid = await _record_in_the_first_schema(connection)
    assert await migrate(url) == migration_names()[1:]
    assert await connection.fetch(
        "select head_tokens, open_run_turn, stored_tokens from durable_context.turns"
        " where branch_uuid = $1 order by turn_no",
        branch_uuid,
    ) == [(7, None, 7), (14, 2, 7), (21, 2, 7), (28, None, 7), (35, 5, 7), (42, 6, 7), (49, 6, 7)]
    async with await ContextClient.connect(url, temporal=None) as client:
        branch = await client.find_branch("c")
        assert (await branch.search("turn 3"))[0].to_turn == 3
        child = await branch.fork("child", at_turn=3)
        assert (await child.inspect()).open_run_turn == 2
        prepared = await child.prepare(None, budget=Budget(max_tokens=32_000))
        assert prepared
        check_coverage(prepared, 3)
        assert "task" in kinds(prepared)
        report = "\n".join(f"line {n} of the report" for n in range(1_000))
        await child.record_turn([*exchange("a", report)])
        await branch.record_turn(chat("More?", "Enough."), turn_key="turn 8")
        assert [turn.turn_no for turn in await child.turns()] == [1, 2, 3, 4]
        [artifact] = await child.artifacts()
        assert (await child.load_artifact(artifact.handle)).content == report
        assert [event.kind async for event in branch.events()] == ["forked", "recorded"]
    await connection.close()
