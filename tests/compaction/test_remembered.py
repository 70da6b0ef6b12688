"""What became of nodes before: upgrades remember failures and reverts, and rebuilds what their
earlier runs left running.
"""

from datetime import timedelta

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.store import RunId
from durable_context.database import Pool
from durable_context.errors import StalePlan
from durable_context.sweeps.outdated import OutdatedBranches
from durable_context.sweeps.paging import FIRST
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.rebuilding import RebuildSteps
from tests.turns import numbered

POLICY = CompactionPolicy(
    segment_turns=6, fan_out=8, keep_raw_turns=1, summary_max_tokens=60, degrade_after=timedelta(0)
)
OLD, NEW, NEWEST = "model:told/1", "model:told/2", "model:told/3"


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    """With leaves of turns 1-6 and 7-12, by the old recipe."""
    branch = await client.open_branch("conversation")
    for turn in range(1, 14):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid, POLICY, Told(OLD))
    return branch


def upgrade(pool: Pool, branch: Branch, told: Told) -> RebuildSteps:
    return RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY)


async def is_due(pool: Pool, branch: Branch, recipe: str = NEW) -> bool:
    """For a sweep and for the rebuild that it would start, which agree."""
    page = await OutdatedBranches(pool, None, recipe).page(FIRST)
    plan = await upgrade(pool, branch, Told(recipe)).compactor.plan_rebuild(
        upgrade(pool, branch, Told(recipe)).request
    )
    await pool.execute("delete from durable_context.compactions where status = 'running'")
    assert bool(page.due) == bool(plan.nodes)
    return bool(plan.nodes)


async def hours_pass(pool: Pool, hours: int) -> None:
    await pool.execute(
        "update durable_context.compactions set finished_at = finished_at - $1 * interval '1 hour'",
        hours,
    )


async def test_a_node_that_failed_is_tried_again_after_pauses_that_grow(
    branch: Branch, pool: Pool
) -> None:
    for pause in (12, 24, 48):
        assert await is_due(pool, branch)
        told = Told(NEW, fails_at=1)
        await upgrade(pool, branch, told).all()
        assert len(told.asked) == 2
        await hours_pass(pool, pause - 1)
        assert not await is_due(pool, branch)
        await hours_pass(pool, 2)


async def test_a_node_that_failed_is_tried_at_once_by_another_recipe(
    branch: Branch, pool: Pool
) -> None:
    await upgrade(pool, branch, Told(NEW, fails_at=1)).all()
    assert not await is_due(pool, branch)
    assert await is_due(pool, branch, NEWEST)


async def test_an_upgrade_leaves_alone_what_a_revert_went_back_to_until_the_recipe_changes(
    branch: Branch, pool: Pool
) -> None:
    old = (await branch.checkpoints())[-1]
    await upgrade(pool, branch, Told(NEW)).all()
    assert {node.recipe for node in await branch.summaries()} == {NEW}
    await branch.revert(old.checkpoint_id)
    assert {node.recipe for node in await branch.summaries()} == {OLD}
    assert not await is_due(pool, branch)
    assert await is_due(pool, branch, NEWEST)


async def test_what_is_degraded_since_a_revert_is_upgraded_whatever_that_rejected(
    branch: Branch, pool: Pool
) -> None:
    await branch.revert(0)
    await compact_all(pool, branch.branch_uuid, POLICY, Told(OLD, fails_at=1))
    assert all(node.degraded for node in await branch.summaries())
    assert await is_due(pool, branch, OLD)


async def test_a_leaf_that_is_made_while_the_branch_is_reverted_is_not_published(
    branch: Branch, pool: Pool
) -> None:
    steps = RebuildSteps(pool, branch.branch_uuid, Told(NEW), "rebuild", POLICY)
    plan = await steps.plan()
    drafts = [await steps.make(plan, node) for node in plan.nodes]
    await branch.revert(6)
    await pool.execute(
        "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn, to_turn,"
        " recipe, input_hash, revision, headline, text, token_count, input_tokens,"
        " covered_tokens, made_by) select tenant, branch_uuid, level, from_turn, to_turn, recipe,"
        " input_hash, 99, headline, text, token_count, input_tokens, covered_tokens, made_by"
        " from durable_context.summaries where summary_id = any($1) and to_turn = 6",
        drafts,
    )
    late = await pool.fetchval("select summary_id from durable_context.summaries where revision=99")
    with pytest.raises(StalePlan, match="reverted"):
        await steps.replace(late)
    plan = await steps.plan()
    assert (plan.nodes, plan.reverted) == ((), True)


async def test_the_next_run_fails_what_the_run_before_left_running(
    branch: Branch, pool: Pool
) -> None:
    steps = RebuildSteps(pool, branch.branch_uuid, Told(NEW), "rebuild", POLICY, to_turn=6)
    await steps.compactor.plan_rebuild(steps.request, RunId("rebuild-1", "terminated"))
    other = RebuildSteps(pool, branch.branch_uuid, Told(NEW), "merge", POLICY)
    await other.compactor.plan_rebuild(other.request, RunId("rebuild-1", "next"))
    [left] = [one for one in await branch.compactions() if one.reason == "rebuild"]
    assert (left.status, left.error) == ("failed", "left behind: its rebuild ended without it")


async def test_a_run_that_ends_leaves_nothing_running(branch: Branch, pool: Pool) -> None:
    by = RunId("rebuild-1", "only")
    steps = RebuildSteps(pool, branch.branch_uuid, Told(NEW), "rebuild", POLICY)
    plan = await steps.compactor.plan_rebuild(steps.request, by)
    assert len(plan.nodes) == 2
    began = {"since": plan.since, "begun_at": plan.begun_at}
    request = steps.request.model_copy(update=began | {"from_turn": 100, "to_turn": 101})
    assert not (await steps.compactor.plan_rebuild(request, by)).nodes
    assert {one.status for one in await branch.compactions()} == {"completed", "failed"}
