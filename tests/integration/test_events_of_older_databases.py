"""A database from before events has them from the migration on."""

from importlib import resources
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from durable_context import ContextClient
from durable_context.migrations import migrate
from tests.events import Connection, all_events

# A manifest of a shape nobody knows, with what Postgres cannot read as text.
_TURN = r"""
with added as (
    insert into durable_context.turns (
        tenant, branch_uuid, turn_no, turn_key, content_hash, messages, message_tokens, token_count,
        stored_tokens, raw_tokens, outcome, continues, digest, digest_tokens, ledger, {terms},
        occurred_at, recorded_at, head_tokens, manifest
    ) values (
        'default', $1, $2, 'turn ' || $2::integer, sha256(''), '[]', '{{5}}', 5,
        5, 5, 'complete', false, 'd', 1, '[]', {none},
        now(), now(), 5, '{{"blocks": "\u0000\ud800"}}'
    ) returning branch_uuid, turn_no
)
update durable_context.branches b set head_turn = a.turn_no
from added a where a.branch_uuid = b.branch_uuid
"""
OLDER_TURN = _TURN.format(terms="terms", none="''")
TURN = _TURN.format(terms="message_terms", none="array[''::tsvector]")


async def test_a_database_from_before_events_has_them_from_then_on(postgres: Any):
    name = f"older_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name}")
    try:
        connection = await asyncpg.connect(postgres.url_of(name))
        branch_uuid = await _older_database(connection)
        assert "0004_events.sql" in await migrate(postgres.url_of(name))
        assert await connection.fetchval("select count(*) from durable_context.events") == 0
        await connection.execute(
            "update durable_context.compactions set status = 'failed', error = 'lost'"
        )
        await connection.execute(TURN, branch_uuid, 2)
        await connection.execute(
            "select durable_context.fork_branch('default', $1, 'child', 1, 2)", branch_uuid
        )
        async with await ContextClient.connect(postgres.url_of(name), temporal=None) as client:
            branch = await client.open_branch("c")
            events = await all_events(branch)
        assert [(event.cursor, event.kind) for event in events] == [
            (1, "compaction_failed"),
            (2, "prepared"),
            (3, "recorded"),
            (4, "forked"),
        ]
        assert events[1].data == {}
        await connection.close()
    finally:
        await admin.execute(f"drop database {name} with (force)")
        await admin.close()


async def _older_database(connection: Connection) -> UUID:
    """Migrated up to 0003, with a turn, and a compaction that runs."""
    await connection.execute(
        "create schema durable_context;"
        " create table durable_context.migrations"
        " (name text primary key, applied_at timestamptz not null default clock_timestamp())"
    )
    folder = resources.files("durable_context.migrations")
    for name in ("0001_initial.sql", "0002_lineage.sql", "0003_artifacts.sql"):
        await connection.execute(folder.joinpath(name).read_text(encoding="utf-8"))
        await connection.execute("insert into durable_context.migrations (name) values ($1)", name)
    branch_uuid = await connection.fetchval(
        "insert into durable_context.branches"
        " (tenant, conversation_id, branch_id, encoding, text_search)"
        " values ('default', 'c', 'main', 'o200k_base', 'english') returning branch_uuid"
    )
    await connection.execute(OLDER_TURN, branch_uuid, 1)
    await connection.execute(
        "insert into durable_context.compactions"
        " (tenant, branch_uuid, from_turn, to_turn, status, reason)"
        " values ('default', $1, 1, 1, 'running', 'turn')",
        branch_uuid,
    )
    return branch_uuid
