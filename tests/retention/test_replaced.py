"""Nodes and checkpoints that were replaced go once nothing needs them: never before."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.replacing import replace_node
from tests.retention.aged import (
    AT_ONCE,
    Connection,
    at_once,
    checked_gc,
    gc,
    shown,
    states,
    talk,
    until_somebody_waits,
)
from tests.turns import numbered

ONE_CHECKPOINT = at_once(checkpoints_kept=1)
DAY = timedelta(days=1)


@pytest.fixture
async def root(client: ContextClient, pool: Pool) -> Branch:
    return await talk(client, pool)


async def test_a_fork_keeps_its_prompt_byte_for_byte_while_what_its_parent_replaced_goes(
    client: ContextClient, pool: Pool, connection: Connection, root: Branch
):
    fork = await root.fork("fork")
    before = await shown(fork)
    await replace_node(connection, root, 1, "Other words.", level=1)
    after = await shown(root)
    report = await checked_gc(client, ONE_CHECKPOINT)
    assert report.count("summaries") == 0
    assert "superseded" in await states(connection, root)
    assert await shown(fork) == before
    assert await shown(root) == after
    for turn in range(33, 45):
        await fork.record_turn(numbered(turn))
    assert await compact_all(pool, fork.branch_uuid) == 2


async def test_what_a_fork_held_goes_when_the_fork_takes_over_what_replaced_it(
    client: ContextClient, connection: Connection, root: Branch
):
    fork = await root.fork("fork")
    await replace_node(connection, root, 1, "Other words.", level=1)
    assert (await gc(client, ONE_CHECKPOINT)).count("summaries") == 0
    await connection.execute(
        "update durable_context.lineage l set publication = b.publication"
        " from durable_context.branches b where l.branch_uuid = $1 and l.depth = 1"
        " and b.branch_uuid = l.ancestor_uuid",
        fork.branch_uuid,
    )
    report = await checked_gc(client, ONE_CHECKPOINT)
    assert (report.count("summaries"), report.count("checkpoints")) == (1, 1)
    assert "superseded" not in await states(connection, root)
    assert "superseded" not in await states(connection, root, "checkpoints")


async def test_a_fork_of_a_fork_holds_what_it_sees(
    client: ContextClient, connection: Connection, root: Branch
):
    child = await root.fork("child")
    grandchild = await child.fork("grandchild")
    before = await shown(grandchild)
    await replace_node(connection, root, 1, "Other words.", level=1)
    await connection.execute(
        "update durable_context.lineage set publication = 1000"
        " where branch_uuid = $1 and depth = 1",
        child.branch_uuid,
    )
    assert (await checked_gc(client, ONE_CHECKPOINT)).count("summaries") == 0
    assert await shown(grandchild) == before


async def test_without_forks_a_node_goes_as_soon_as_no_checkpoint_names_it(
    client: ContextClient, connection: Connection, root: Branch
):
    await replace_node(connection, root, 1, "Other words.")
    before = await shown(root)
    report = await checked_gc(client)
    assert report.count("summaries") == 0, "checkpoints at turns 6, 12 and 18 name it"
    report = await checked_gc(client, ONE_CHECKPOINT)
    assert (report.count("summaries"), report.count("checkpoints")) == (1, 4)
    assert len(await root.checkpoints()) == 1
    assert await shown(root) == before


async def test_a_checkpoint_that_was_replaced_goes_and_one_made_of_it_stays(
    client: ContextClient, pool: Pool, connection: Connection, root: Branch
):
    await replace_node(connection, root, 25, "Other words.")
    for turn in range(33, 39):
        await root.record_turn(numbered(turn))
    await compact_all(pool, root.branch_uuid)
    await connection.execute(
        "update durable_context.lineage set publication = publication where branch_uuid = $1",
        root.branch_uuid,
    )
    before = await shown(root)
    report = await checked_gc(client)
    assert (report.count("checkpoints"), report.count("summaries")) == (1, 1)
    assert await shown(root) == before
    left = await root.checkpoints()
    assert [checkpoint.turn_no for checkpoint in left] == [6, 12, 18, 24, 30, 36]


async def test_rejected_ones_stay_for_audit_unless_they_are_asked_to_go(
    client: ContextClient, connection: Connection, root: Branch
):
    await root.revert(12)
    rejected = (await states(connection, root)).count("rejected")
    assert rejected == 4
    assert (await checked_gc(client, at_once(rejected_after=None))).total == 0
    report = await checked_gc(client)
    assert (report.count("summaries"), report.count("checkpoints")) == (rejected, 3)
    assert [checkpoint.turn_no for checkpoint in await root.checkpoints()] == [6, 12]


async def test_a_fork_keeps_what_its_parent_rejected(
    client: ContextClient, pool: Pool, connection: Connection, root: Branch
):
    fork = await root.fork("fork")
    before = await shown(fork)
    await root.revert(0)
    assert (await checked_gc(client)).total == 0
    assert await shown(fork) == before


async def test_nothing_goes_before_its_age(
    client: ContextClient, connection: Connection, root: Branch
):
    await replace_node(connection, root, 1, "Other words.", level=1)
    week = at_once(superseded_after=7 * DAY)
    assert (await checked_gc(client, week)).total == 0
    await connection.execute(
        "update durable_context.summaries set replaced_at = now() - interval '8 days'"
        " where replaced_at is not null"
    )
    report = await checked_gc(client, week)
    assert (report.count("summaries"), report.count("checkpoints")) == (0, 0), "is named still"
    await connection.execute(
        "update durable_context.checkpoints set replaced_at = now() - interval '8 days'"
        " where replaced_at is not null"
    )
    report = await checked_gc(client, week.model_copy(update={"checkpoints_kept": 1}))
    assert (report.count("summaries"), report.count("checkpoints")) == (1, 5)


async def test_the_newest_checkpoints_stay_and_those_that_forks_begin_with(
    client: ContextClient, pool: Pool, root: Branch
):
    early = await root.fork("early", at_turn=15)
    late = await root.fork("late", at_turn=29)
    prompts = [await shown(branch) for branch in (root, early, late)]
    report = await checked_gc(client, at_once(checkpoints_kept=2))
    assert report.count("checkpoints") == 2
    assert [checkpoint.turn_no for checkpoint in await root.checkpoints()] == [12, 24, 30]
    assert [await shown(branch) for branch in (root, early, late)] == prompts
    for turn in range(16, 28):
        await early.record_turn(numbered(turn))
    assert await compact_all(pool, early.branch_uuid) == 2
    at_turn_8 = await root.fork("without", at_turn=8)
    assert await at_turn_8.checkpoints() == ()
    assert b"SHP-0001" in await shown(at_turn_8), "shown from its turns"


async def test_drafts_parts_and_old_rows_of_compactions_go(
    client: ContextClient, connection: Connection, root: Branch
):
    await connection.execute(
        "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
        " recipe, input_hash, headline, text, token_count, input_tokens, covered_tokens, made_by)"
        " select tenant, branch_uuid, level, from_turn, to_turn, 'left', input_hash, headline,"
        " text, token_count, input_tokens, covered_tokens, made_by"
        " from durable_context.summaries where from_turn = 1"
    )
    await connection.execute(
        "insert into durable_context.summary_parts (tenant, branch_uuid, recipe, input_hash, draft)"
        " select tenant, branch_uuid, recipe, sha256(n::text::bytea), '{}'"
        " from durable_context.summaries, generate_series(1, 10) n where recipe = 'left'"
        " and level = 0"
    )
    await connection.execute(
        "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn, status,"
        " reason, finished_at) values ('default', $1, 31, 36, 'running', 'turn', null)",
        root.branch_uuid,
    )
    before = await shown(root)
    report = await checked_gc(client, at_once(compactions_kept=20))
    assert report.total == 0
    await connection.execute(
        "set session_replication_role = replica;"
        " update durable_context.summaries set created_at = created_at - interval '2 hours';"
        " update durable_context.summary_parts set created_at = created_at - interval '2 hours'"
    )
    report = await checked_gc(client, at_once(compactions_kept=2))
    assert (report.count("drafts"), report.count("summary_parts")) == (2, 10)
    assert report.count("compactions") == 4
    left = await root.compactions()
    assert [compaction.status for compaction in left] == ["running", "completed"]
    assert await shown(root) == before


async def test_a_fork_that_is_made_at_the_same_time_finds_what_it_begins_with(
    client: ContextClient, connection: Connection, root: Branch, database_url: str
):
    """The fork has read its parent's publication, and the parent goes on before it is there."""
    forking = await asyncpg.connect(database_url)
    await forking.execute("begin")
    await forking.execute(
        "select durable_context.fork_branch('default', $1, 'fork', null, 2)", root.branch_uuid
    )
    before = await shown(root)
    await replace_node(connection, root, 1, "Other words.", level=1)
    await client.set_retention(ONE_CHECKPOINT)
    collecting = asyncio.create_task(client.gc())
    await until_somebody_waits(connection)
    await forking.execute("commit")
    await forking.close()
    report = await collecting
    assert report.count("summaries") == 0
    assert await shown(await client.find_branch("talk", "fork")) == before


async def test_a_fork_that_comes_while_nodes_are_deleted_begins_with_those_that_replaced_them(
    client: ContextClient, connection: Connection, root: Branch, database_url: str
):
    deleting = await asyncpg.connect(database_url)
    transaction = deleting.transaction()
    await transaction.start()
    await deleting.execute("set local durable_context.retention = 'on'")
    await deleting.execute(
        "select from durable_context.branches where branch_uuid = $1 for update", root.branch_uuid
    )
    forking = asyncio.create_task(root.fork("fork"))
    await until_somebody_waits(connection)
    await replace_node(deleting, root, 1, "Other words.", level=1)
    for table in ("checkpoints", "summaries"):
        await deleting.execute(f"delete from durable_context.{table} where state = 'superseded'")
    await transaction.commit()
    await deleting.close()
    fork = await forking
    assert await shown(fork) == await shown(root)
    assert [node.level for node in await fork.summaries() if node.text == "Other words."] == [1]


async def test_rows_are_refused_to_all_but_retention(connection: Connection, root: Branch):
    await replace_node(connection, root, 1, "Other words.")
    for table in ("summaries", "checkpoints", "turns", "lineage", "events", "branches"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(f"delete from durable_context.{table}")
        assert refused.value.sqlstate == "DC001", table
    for change in ("frontier = '{}'", "parent_id = null", "parent_id = checkpoint_id"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(f"update durable_context.checkpoints set {change}")
        assert refused.value.sqlstate == "DC001", change


async def test_retention_may_delete_and_change_nothing(connection: Connection, root: Branch):
    await connection.execute("set durable_context.retention = 'on'")
    for table, change in (
        ("turns", "digest = ''"),
        ("summaries", "text = 'x'"),
        ("checkpoints", "text = 'x'"),
        ("checkpoints", "parent_id = checkpoint_id"),
        ("events", "kind = 'put'"),
        ("branches", "branch_id = 'x'"),
    ):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(f"update durable_context.{table} set {change}")
        assert refused.value.sqlstate == "DC001", (table, change)
    with pytest.raises(asyncpg.PostgresError):
        await connection.execute("truncate durable_context.turns")


async def test_the_default_takes_nothing_of_what_was_just_made(
    client: ContextClient, connection: Connection, root: Branch
):
    await replace_node(connection, root, 1, "Other words.")
    assert (await client.gc()).total == 0
    assert (await client.retention()).superseded_after == 30 * DAY
    await client.set_retention(AT_ONCE)
    assert await client.retention() == AT_ONCE
