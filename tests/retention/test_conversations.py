"""Whole conversations go only where a tenant asks for it, and with all they have."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from durable_context import ContextClient
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.retention import RetentionPolicy
from tests.compacting import compact_all
from tests.retention.aged import (
    NOW,
    Connection,
    at_once,
    checked_gc,
    dump,
    shown,
    talk,
    until_somebody_waits,
)
from tests.turns import numbered

DAY = timedelta(days=1)
OF_NO_CONVERSATION = {"migrations", "tenants", "token_calibrations"}


async def grown(client: ContextClient, pool: Pool, conversation_id: str) -> None:
    """A conversation with a row in every table that can have one."""
    branch = await talk(client, pool, conversation_id, turns=14)
    await branch.put_artifact(f"Of {conversation_id}.", name="report")
    await branch.pin(3)
    fork = await branch.fork("fork")
    for turn in range(15, 30):
        await fork.record_turn(numbered(turn))
    await compact_all(pool, fork.branch_uuid)
    await fork.fork("of the fork", at_turn=16)
    await fork.revert(12)
    await client.open_branch(conversation_id, "another root")


async def age(connection: Connection, days: int, *conversation_ids: str) -> None:
    """As if nothing had happened in these conversations for that long."""
    await connection.execute("set session_replication_role = replica")
    await connection.execute(
        "update durable_context.branches set last_turn_at = last_turn_at - $1::interval,"
        " created_at = created_at - $1::interval where conversation_id = any($2::text[])",
        days * DAY,
        conversation_ids,
    )
    await connection.execute(
        "update durable_context.artifacts a set created_at = a.created_at - $1::interval"
        " from durable_context.branches b where b.branch_uuid = a.branch_uuid"
        " and b.conversation_id = any($2::text[])",
        days * DAY,
        conversation_ids,
    )
    await connection.execute("set session_replication_role = origin")


async def names(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        "select distinct conversation_id from durable_context.branches order by 1"
    )
    return [row["conversation_id"] for row in rows]


async def test_a_deleted_conversation_leaves_nothing_and_others_as_they_were(
    client: ContextClient, pool: Pool, connection: Connection
):
    await grown(client, pool, "one")
    before = await dump(connection)
    await grown(client, pool, "two")
    announced = await client.delete_conversation("two", dry_run=True)
    report = await client.delete_conversation("two")
    assert (announced.taken, announced.dry_run) == (report.taken, True)
    assert (report.count("conversations"), report.count("contents")) == (1, 1)
    assert report.conversation_ids == ("two",)
    assert await dump(connection) == before
    with pytest.raises(UnknownBranch, match="no conversation 'two'"):
        await client.delete_conversation("two")


async def test_no_table_is_forgotten(client: ContextClient, pool: Pool, connection: Connection):
    await grown(client, pool, "one")
    await connection.execute(
        "insert into durable_context.summary_parts (tenant, branch_uuid, recipe, input_hash, draft)"
        " select tenant, branch_uuid, 'r', input_hash, '{}' from durable_context.summaries limit 1;"
        " insert into durable_context.focuses (tenant, branch_uuid, focus)"
        " select tenant, branch_uuid, 'prices' from durable_context.branches limit 1;"
        " insert into durable_context.damages (tenant, branch_uuid, hash, finding)"
        " select tenant, branch_uuid, sha256('x'), '{}' from durable_context.branches limit 1"
    )
    await client.delete_conversation("one")
    left = {table for table, rows in (await dump(connection)).items() if rows}
    assert left <= OF_NO_CONVERSATION


async def test_by_default_no_conversation_ever_goes(
    client: ContextClient, pool: Pool, connection: Connection
):
    await talk(client, pool, turns=3)
    await age(connection, 3650, "talk")
    assert (await checked_gc(client, RetentionPolicy())).total == 0


async def test_conversations_go_by_age_of_their_last_turn_unless_they_have_a_pin(
    client: ContextClient, pool: Pool, connection: Connection
):
    for name in ("old", "pinned", "forked", "put", "new"):
        branch = await talk(client, pool, name, turns=9)
        if name == "pinned":
            await branch.pin(2)
    await age(connection, 40, "old", "pinned", "forked", "put")
    await (await client.find_branch("forked")).fork("idea")
    await (await client.find_branch("put")).put_artifact("x", name="report")
    policy = RetentionPolicy(conversations_after=30 * DAY)
    report = await checked_gc(client, policy)
    assert report.conversation_ids == ("old",)
    assert await names(connection) == ["forked", "new", "pinned", "put"]
    await (await client.find_branch("pinned")).unpin(2)
    assert (await checked_gc(client, policy)).conversation_ids == ("pinned",)


async def test_the_newest_conversations_stay(
    client: ContextClient, pool: Pool, connection: Connection
):
    for days in range(6):
        await talk(client, pool, f"talk-{days}", turns=2)
        await age(connection, days, f"talk-{days}")
    report = await checked_gc(client, RetentionPolicy(conversations_kept=2))
    assert sorted(report.conversation_ids) == ["talk-2", "talk-3", "talk-4", "talk-5"]
    assert await names(connection) == ["talk-0", "talk-1"]


async def test_a_conversation_with_several_roots_is_counted_once(
    client: ContextClient, pool: Pool, connection: Connection
):
    for branch_id in ("main", "b", "c"):
        await (await client.open_branch("talk", branch_id)).record_turn(numbered(1))
    report = await checked_gc(client, at_once(conversations_after=NOW))
    assert report.count("conversations") == 1
    assert await names(connection) == []


async def test_a_conversation_that_comes_into_use_meanwhile_stays(
    client: ContextClient, pool: Pool, connection: Connection, database_url: str
):
    branch = await talk(client, pool, turns=9)
    await age(connection, 40, "talk")
    await client.set_retention(RetentionPolicy(conversations_after=30 * DAY))
    recording = await asyncpg.connect(database_url)
    await recording.execute("begin")
    await recording.execute(
        "update durable_context.branches set last_turn_at = now() where branch_uuid = $1",
        branch.branch_uuid,
    )
    collecting = asyncio.create_task(client.gc())
    await until_somebody_waits(connection)
    await recording.execute("commit")
    await recording.close()
    assert (await collecting).total == 0
    assert b"SHP-0009" in await shown(branch)


async def test_whoever_records_to_a_deleted_branch_is_told(
    client: ContextClient, pool: Pool, connection: Connection
):
    branch = await talk(client, pool, turns=2)
    await client.delete_conversation("talk")
    with pytest.raises(UnknownBranch):
        await branch.record_turn(numbered(3))
    again = await client.open_branch("talk")
    assert (await again.record_turn(numbered(1))).turn_no == 1


async def test_another_tenant_keeps_everything(
    client: ContextClient, make_client, pool: Pool, connection: Connection
):
    other = await make_client(tenant="other")
    await (await other.open_branch("talk")).record_turn(numbered(1))
    before = await dump(connection)
    await talk(client, pool, turns=20)
    await client.set_retention(at_once(conversations_after=NOW, checkpoints_kept=1))
    assert (await client.gc()).total > 0
    after = await dump(connection)
    tenants = after.pop("tenants")
    before.pop("tenants")
    assert len(tenants) == 1
    assert after == before
    with pytest.raises(UnknownBranch):
        await client.delete_conversation("talk")


async def test_policies_that_make_no_sense_are_refused(client: ContextClient):
    for fields in (
        {"superseded_after": -DAY},
        {"superseded_after": 40_000 * DAY},
        {"checkpoints_kept": 0},
        {"conversations_kept": -1},
        {"objects_after": NOW},
        {"unknown": 1},
    ):
        with pytest.raises(ValueError):
            RetentionPolicy.model_validate(fields)
    with pytest.raises(InvalidArgument, match="must be a RetentionPolicy"):
        await client.set_retention({})  # type: ignore[arg-type]
