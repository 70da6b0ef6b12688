"""A fork that takes over what its ancestors replaced, and leaves what it cannot."""

from typing import TypeAlias

import asyncpg
import pytest

from durable_context import Branch, ContextClient
from durable_context.compaction.following import follow
from durable_context.compaction.store import CompactionStore
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.test_compactor import Steps, record
from tests.replacing import replace_node

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def root(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("conversation")
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    return branch


async def test_a_fork_sees_what_its_parent_replaced_once_it_follows(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork")
    before = await fork.summaries()
    new = await replace_node(connection, root, 1, "A cormorant signed for it.")
    assert await fork.summaries() == before
    assert await follow(pool, "default", fork.branch_uuid)
    assert await fork.summaries() == await root.summaries()
    assert new in {node.summary_id for node in await fork.summaries()}
    assert await fork.checkpoints() == await root.checkpoints()
    assert not await follow(pool, "default", fork.branch_uuid), "nothing is left to follow"


async def test_the_frontier_of_a_fork_that_follows_is_of_what_is_there(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork")
    await record(fork, 6)
    await compact_all(pool, fork.branch_uuid)
    new = await replace_node(connection, root, 1, "A cormorant signed for it.")
    store = CompactionStore(pool, "default", fork.branch_uuid)
    publication = (await store.head()).publication
    assert await follow(pool, "default", fork.branch_uuid)
    assert (await store.head()).publication == publication + 1
    frontier = await store.frontier(18)
    assert [(node.from_turn, node.to_turn) for node in frontier] == [(1, 6), (7, 12), (13, 18)]
    assert frontier[0].summary_id == new == (await fork.inspect()).frontier[0].summary_id


async def test_a_fork_does_not_follow_a_parent_that_reverted_what_it_builds_on(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork")
    before = await fork.summaries(), await fork.checkpoints()
    await root.revert(6)
    assert not await follow(pool, "default", fork.branch_uuid)
    assert (await fork.summaries(), await fork.checkpoints()) == before
    await compact_all(pool, root.branch_uuid)
    assert await follow(pool, "default", fork.branch_uuid), "it is there again"
    assert await fork.summaries() == await root.summaries()


async def test_a_fork_of_an_earlier_turn_follows_past_a_revert_of_later_ones(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork", at_turn=9)
    new = await replace_node(connection, root, 1, "A cormorant signed for it.")
    assert await follow(pool, "default", fork.branch_uuid)
    assert [node.summary_id for node in await fork.summaries()] == [new]
    await root.revert(6)
    assert await follow(pool, "default", fork.branch_uuid)
    assert await fork.summaries() == await root.summaries()


async def test_a_grandchild_follows_each_ancestor_as_far_as_it_can(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    child = await root.fork("child")
    await record(child, 6)
    await compact_all(pool, child.branch_uuid)
    grandchild = await child.fork("grandchild")
    new = await replace_node(connection, root, 1, "A cormorant signed for it.")
    await child.revert(12)
    assert await follow(pool, "default", grandchild.branch_uuid)
    nodes = await grandchild.summaries()
    assert [(node.from_turn, node.to_turn) for node in nodes] == [(1, 6), (7, 12), (13, 18)]
    assert nodes[0].summary_id == new
    assert (await child.summaries())[0].summary_id != new, "the child did not follow"


async def test_a_fork_keeps_out_of_what_its_parent_merged_since(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork")
    for branch in (root, fork):
        await record(branch, 14)
        await compact_all(pool, branch.branch_uuid)
    before = await fork.summaries()
    assert {node.level for node in before} == {0, 1}
    await _merge(connection, root)
    assert not await follow(pool, "default", fork.branch_uuid)
    assert await fork.summaries() == before


async def test_a_compaction_that_began_before_its_branch_followed_is_made_of_what_is_there(
    root: Branch, pool: Pool, connection: Connection
) -> None:
    fork = await root.fork("fork")
    await record(fork, 6)
    steps = Steps(pool, fork)
    plan = await steps.plan()
    made = await steps.summarize(plan)
    new = await replace_node(connection, root, 1, "A cormorant signed for it.")
    assert await follow(pool, "default", fork.branch_uuid)
    await steps.commit(plan, made)
    assert (await fork.checkpoints())[-1].frontier[0] == new


async def _merge(connection: Connection, branch: Branch) -> None:
    """As a merge in the background leaves it: a node of level 1 over turns 1 to 12."""
    async with connection.transaction():
        await connection.execute(
            "update durable_context.branches set publication = publication + 1"
            " where branch_uuid = $1",
            branch.branch_uuid,
        )
        await connection.execute(
            "update durable_context.summaries set state = 'superseded'"
            " where branch_uuid = $1 and level = 1 and state = 'current'",
            branch.branch_uuid,
        )
        await connection.execute(
            "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
            " recipe, input_hash, state, headline, text, token_count, input_tokens, covered_tokens,"
            " made_by) select tenant, branch_uuid, 1, 1, 12, 'm', input_hash, 'current', 'm', 'm',"
            " 1, 2, 2, 'm' from durable_context.summaries where branch_uuid = $1 and level = 0"
            " and from_turn = 1 and state = 'current'",
            branch.branch_uuid,
        )
