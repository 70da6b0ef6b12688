"""Nodes made anew and merged on a real database: what is due, in which order, and what is to be
seen of it.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

import asyncpg
import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.focus import focused_recipe, store_focus
from durable_context.database import Pool
from durable_context.errors import StalePlan
from durable_context.models import Summary
from durable_context.summarizers import Summarizer
from durable_context.summarizers.chain import SummarizerChain
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.compacting import compact_all, compact_once
from tests.compaction.told import Told
from tests.prompts import check_coverage
from tests.rebuilding import RebuildSteps
from tests.turns import numbered

POLICY = CompactionPolicy(
    segment_turns=6,
    fan_out=2,
    keep_raw_turns=1,
    summary_max_tokens=60,
    degrade_after=timedelta(0),
)
BUDGET = Budget(max_tokens=32_000)
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def record(branch: Branch, count: int) -> None:
    head = (await branch.inspect()).head_turn
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))


async def compacted(
    branch: Branch, pool: Pool, turns: int, summarizer: Summarizer | None = None
) -> None:
    """Nodes by a summarizer; all degraded where none is given."""
    await record(branch, turns)
    await compact_all(pool, branch.branch_uuid, POLICY, summarizer or Told(fails_at=1))


def ranges(nodes: tuple[Summary, ...]) -> list[tuple[int, int, int]]:
    return sorted((node.level, node.from_turn, node.to_turn) for node in nodes)


async def check(branch: Branch) -> None:
    prepared = await branch.prepare("Where is it?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    check_coverage(prepared, (await branch.inspect()).head_turn)


async def test_an_upgrade_replaces_all_degraded_nodes_from_the_leaves_up(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 25)
    before = await branch.summaries()
    assert ranges(before) == [
        *((0, 1, 6), (0, 7, 12), (0, 13, 18), (0, 19, 24)),
        *((1, 1, 12), (1, 13, 24), (2, 1, 24)),
    ]
    assert all(node.degraded for node in before)
    told = Told()
    batches = await RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY).all()
    assert [level for level, _ in batches] == [0, 1, 2]
    assert batches[0][1] == [(19, 24), (13, 18), (7, 12), (1, 6)]
    after = await branch.summaries()
    assert ranges(after) == ranges(before)
    assert {(node.degraded, node.made_by) for node in after} == {(False, told.recipe)}
    assert {node.summary_id for node in after}.isdisjoint(node.summary_id for node in before)
    merge = next(asked for asked in told.asked if asked.level == 1)
    assert all("Told by" in node.text for node in merge.nodes)
    await check(branch)
    assert not await RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY).all()


async def test_the_newest_checkpoint_is_made_again_and_older_ones_stay(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(branch, pool, 25)
    state, checkpoints = await branch.inspect(), await branch.checkpoints()
    assert state.checkpoint is not None
    await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).all()
    now, again = await branch.inspect(), await branch.checkpoints()
    assert now.checkpoint is not None and now.checkpoint.turn_no == 24
    assert now.checkpoint.frontier == (now.frontier[0].summary_id,)
    assert now.frontier[0].text in now.checkpoint.text
    assert now.checkpoint.ledger == state.checkpoint.ledger
    assert now.checkpoint.parent_id == state.checkpoint.parent_id == again[-2].checkpoint_id
    assert (
        now.checkpoint.token_usage["covered_tokens"]
        == (state.checkpoint.token_usage["covered_tokens"])
    )
    assert [one.checkpoint_id for one in again[:-1]] == [
        one.checkpoint_id for one in checkpoints[:-1]
    ]
    rows = await connection.fetch(
        "select state, revision, leaf_count from durable_context.checkpoints where turn_no = 24"
        " order by revision"
    )
    assert [row[0] for row in rows] == ["superseded", "current"]
    assert len({row["leaf_count"] for row in rows}) == 1


async def test_what_is_read_most_is_upgraded_first(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 25)
    for turn in range(26, 29):
        prepared = await branch.prepare("What about SHP-0009, order 1009?", budget=BUDGET)
        retrieved = [block for block in prepared.manifest.blocks if block.kind == "retrieved"]  # type: ignore[union-attr]
        assert retrieved and retrieved[0].from_turn == 7
        await branch.record_turn(numbered(turn), prepared=prepared)  # type: ignore[arg-type]
    plan = await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).plan()
    assert plan.level == 0
    assert [node.from_turn for node in plan.nodes] == [7, 19, 13, 1]


async def test_an_upgrade_stops_before_the_leaf_that_its_tokens_do_not_pay(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 25)
    leaf = next(node for node in await branch.summaries() if node.level == 0)
    budget = 2 * leaf.input_tokens + leaf.input_tokens // 2
    steps = RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY, max_tokens=budget)
    plan = await steps.batch()
    assert [node.from_turn for node in plan.nodes] == [19, 13] and plan.left == 2
    assert steps.request.spent <= budget
    assert await steps.all() == [(1, [(13, 24)]), (2, [(1, 24)])]
    assert (await steps.plan()).left == 3
    degraded = [node for node in await branch.summaries() if node.degraded]
    assert ranges(tuple(degraded)) == [(0, 1, 6), (0, 7, 12), (1, 1, 12)]
    await check(branch)


async def test_what_cannot_be_made_better_stays_and_is_not_asked_for_again(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 25)
    before = await branch.summaries()
    told = Told(fails_at=13)
    batches = await RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY).all()
    assert [level for level, _ in batches] == [0, 1, 2]
    kept = [node for node in await branch.summaries() if node.degraded]
    assert ranges(tuple(kept)) == [(0, 13, 18), (0, 19, 24), (1, 13, 24)]
    assert {node.summary_id for node in kept} <= {node.summary_id for node in before}
    failed = [one for one in await branch.compactions(50) if one.status == "failed"]
    assert len(failed) == 3 and all("refuses" in (one.error or "") for one in failed)
    assert len([asked for asked in told.asked if asked.from_turn >= 13]) == 3


async def test_a_node_that_is_not_degraded_is_never_replaced_by_a_degraded_one(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 25, Told("model:old/1"))
    before = await branch.summaries()
    assert not any(node.degraded for node in before)
    await RebuildSteps(pool, branch.branch_uuid, Told(fails_at=1), policy=POLICY).all()
    assert await branch.summaries() == before


async def test_a_chain_that_comes_down_to_extracts_replaces_nothing_until_it_answers(
    branch: Branch, pool: Pool
) -> None:
    def chain(told: Told) -> SummarizerChain:
        return SummarizerChain([told, ExtractiveSummarizer()])

    await compacted(branch, pool, 7, chain(Told(fails_at=1)))
    [before] = await branch.summaries()
    assert before.degraded
    away = chain(Told(fails_at=1))
    await RebuildSteps(pool, branch.branch_uuid, away, "rebuild", POLICY).all()
    assert await branch.summaries() == (before,)
    told = Told()
    await RebuildSteps(pool, branch.branch_uuid, chain(told), policy=POLICY).all()
    [after] = await branch.summaries()
    assert after.made_by == told.recipe and not after.degraded


async def test_nodes_of_an_outdated_recipe_are_upgraded_and_others_are_not(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 13, Told("model:old/1"))
    await compacted(branch, pool, 12, Told("model:new/1"))
    told = Told("model:new/1")
    batches = await RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY).all()
    assert batches == [(0, [(7, 12), (1, 6)]), (1, [(1, 12)]), (2, [(1, 24)])]
    assert {node.recipe for node in await branch.summaries()} == {told.recipe}


async def test_a_rebuild_makes_all_nodes_of_its_turns_anew_by_the_same_recipe(
    branch: Branch, pool: Pool
) -> None:
    told = Told()
    await compacted(branch, pool, 25, told)
    before = {node.summary_id: node for node in await branch.summaries()}
    steps = RebuildSteps(pool, branch.branch_uuid, told, "rebuild", POLICY, from_turn=7, to_turn=12)
    assert await steps.all() == [(0, [(7, 12)]), (1, [(1, 12)]), (2, [(1, 24)])]
    after = await branch.summaries()
    new = [node for node in after if node.summary_id not in before]
    assert ranges(tuple(new)) == [(0, 7, 12), (1, 1, 12), (2, 1, 24)]
    assert {node.revision for node in new if node.level == 0} == {2}
    await check(branch)


async def test_identical_words_are_a_new_revision_too(branch: Branch, pool: Pool) -> None:
    await record(branch, 7)
    await compact_all(pool, branch.branch_uuid, POLICY)
    [before] = await branch.summaries()
    steps = RebuildSteps(pool, branch.branch_uuid, ExtractiveSummarizer(), "rebuild", POLICY)
    assert await steps.all() == [(0, [(1, 6)])]
    [after] = await branch.summaries()
    assert after.text == before.text and after.revision == before.revision + 1
    assert after.summary_id != before.summary_id


async def test_retries_and_two_workers_make_one_draft(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 7)
    told = Told()
    steps = RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY)
    plan = await steps.plan()
    other = RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY)
    again = await other.plan()
    assert again.nodes == plan.nodes
    [node] = plan.nodes
    made = await asyncio.gather(*(one.make(plan, node) for one in (steps, other)))
    made.append(await steps.make(plan, node))
    assert len(set(made)) == 1
    results = await asyncio.gather(steps.replace(made[0]), other.replace(made[0]))
    assert [result.replaced for result in results] == [1, 1]
    assert (await steps.replace(made[0])).replaced == 1
    [summary] = await branch.summaries()
    assert summary.summary_id == made[0]
    with pytest.raises(StalePlan):
        await steps.make(plan, node)


async def test_a_replacement_fits_where_a_new_leaf_was_published_meanwhile(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 7)
    steps = RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY)
    plan = await steps.plan()
    made = await steps.make(plan, plan.nodes[0])
    await record(branch, 6)
    assert await compact_once(pool, branch.branch_uuid, POLICY)
    await steps.replace(made)
    state = await branch.inspect()
    assert state.checkpoint is not None and state.checkpoint.turn_no == 12
    leaf = next(node for node in await branch.summaries() if node.from_turn == 1 and not node.level)
    assert leaf.summary_id == made
    await check(branch)


async def test_a_commit_shows_what_was_replaced_while_its_leaf_was_made(
    branch: Branch, pool: Pool
) -> None:
    from tests.compaction.test_compactor import Steps

    policy = POLICY.model_copy(update={"fan_out": 4})
    await record(branch, 7)
    await compact_all(pool, branch.branch_uuid, policy, Told(fails_at=1))
    await record(branch, 6)
    compaction = Steps(pool, branch)
    plan = await compaction.plan(policy)
    drafts = await compaction.summarize(plan)
    await RebuildSteps(pool, branch.branch_uuid, Told(), policy=policy).all()
    await compaction.commit(plan, drafts)
    state = await branch.inspect()
    assert [node.degraded for node in state.frontier] == [False, False]
    assert state.checkpoint is not None and "Told by" in state.checkpoint.text
    await check(branch)


async def test_what_was_reverted_is_not_published_again(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 13)
    steps = RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY)
    plan = await steps.plan()
    drafts = [await steps.make(plan, node) for node in plan.nodes]
    await branch.revert(6)
    with pytest.raises(StalePlan):
        await steps.replace(*drafts)
    assert ranges(await branch.summaries()) == [(0, 1, 6)]
    assert await steps.all() == [], "the rebuild ends"
    again = RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY)
    assert await again.all() == [(0, [(1, 6)])]
    await check(branch)


async def test_a_merge_stands_for_runs_of_the_frontier(branch: Branch, pool: Pool) -> None:
    alone = POLICY.model_copy(update={"fan_out": 16})
    await record(branch, 31)
    await compact_all(pool, branch.branch_uuid, alone)
    state = await branch.inspect()
    assert [node.level for node in state.frontier] == [0] * 5
    told = Told()
    batches = await RebuildSteps(pool, branch.branch_uuid, told, "merge", POLICY).all()
    assert batches == [(1, [(1, 12), (13, 24)]), (2, [(1, 24)])]
    state = await branch.inspect()
    assert ranges(state.frontier) == [(0, 25, 30), (2, 1, 24)]
    assert len(await branch.summaries()) == 8
    assert state.checkpoint is not None and state.checkpoint.frontier == tuple(
        node.summary_id for node in state.frontier
    )
    await check(branch)


async def test_a_merge_that_cannot_pay_is_skipped_with_the_reason(
    branch: Branch, pool: Pool
) -> None:
    short = POLICY.model_copy(update={"segment_turns": 2, "fan_out": 16})
    await record(branch, 5)
    await compact_all(pool, branch.branch_uuid, short)
    told = Told()
    plan = await RebuildSteps(pool, branch.branch_uuid, told, "merge", POLICY).plan()
    assert plan.skipped == 1 and not plan.nodes and not told.asked
    skipped = [one for one in await branch.compactions(50) if one.status == "skipped"]
    assert [(one.from_turn, one.to_turn, one.reason) for one in skipped] == [(1, 4, "merge")]


async def test_a_fork_keeps_its_nodes_when_its_parent_upgrades_and_follows_with_its_own_upgrade(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 26)
    fork = await branch.fork("fork")
    await record(fork, 5)
    await compact_all(pool, fork.branch_uuid, POLICY, Told(fails_at=1))
    seen = await fork.summaries()
    await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).all()
    assert await fork.summaries() == seen
    await check(fork)
    batches = await RebuildSteps(pool, fork.branch_uuid, Told(), policy=POLICY).all()
    assert batches == [(0, [(25, 30)])]
    assert not any(node.degraded for node in await fork.summaries())
    state = await fork.inspect()
    assert state.checkpoint is not None
    assert [node.summary_id for node in state.frontier] == list(state.checkpoint.frontier)
    assert "Told by" in state.checkpoint.text
    await check(fork)


async def test_a_fork_whose_checkpoint_is_its_parents_merges_nothing(
    branch: Branch, pool: Pool
) -> None:
    alone = POLICY.model_copy(update={"fan_out": 16})
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid, alone)
    fork = await branch.fork("fork")
    assert not await RebuildSteps(pool, fork.branch_uuid, Told(), "merge", POLICY).all()
    await RebuildSteps(pool, branch.branch_uuid, Told(), "merge", POLICY).all()
    assert [node.level for node in (await fork.inspect()).frontier] == [0, 0]
    await check(fork)


async def test_a_paused_branch_is_left_alone(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 7)
    await branch.pause()
    plan = await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).plan()
    assert plan.paused and not plan.nodes
    await branch.resume()
    assert (await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).plan()).nodes


async def test_a_prompt_never_falls_between_what_was_and_what_is(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 61)
    done = asyncio.Event()

    async def look() -> int:
        looks = 0
        while not done.is_set():
            await check(branch)
            looks += 1
        return looks

    looking = asyncio.create_task(look())
    await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).all()
    done.set()
    assert await looking > 0


async def test_a_rebuild_asks_the_summarizers_that_it_names(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 7, Told())
    asked: list[Sequence[str]] = []

    def make(specs: Sequence[str]) -> Told:
        asked.append(specs)
        return Told("model:other/1")

    steps = RebuildSteps(
        *(pool, branch.branch_uuid, Told(), "rebuild", POLICY), summarizers=("model:other:one",)
    )
    steps.compactor = Compactor(pool, Told(), make_summarizer=make)
    assert await steps.all() == [(0, [(1, 6)])]
    assert set(asked) == {("model:other:one",)}
    [node] = await branch.summaries()
    assert node.recipe == node.made_by == "model:other/1"


async def test_what_is_kept_in_view_is_in_the_recipe_and_outlives_an_upgrade(
    branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 7, Told())
    focus_id = await store_focus(pool, "default", branch.branch_uuid, "the depots")
    told = Told()
    steps = RebuildSteps(*(pool, branch.branch_uuid, told, "rebuild", POLICY), focus_id=focus_id)
    assert await steps.all() == [(0, [(1, 6)])]
    assert [asked.focus for asked in told.asked] == ["the depots"]
    [node] = await branch.summaries()
    assert node.recipe == focused_recipe(told.recipe, "the depots")
    assert not await RebuildSteps(pool, branch.branch_uuid, told, policy=POLICY).all()
    newer = Told("model:told/2")
    assert await RebuildSteps(pool, branch.branch_uuid, newer, policy=POLICY).all()
    [node] = await branch.summaries()
    assert node.recipe == focused_recipe("model:told/2", "the depots")


async def test_what_was_replaced_is_found_by_what_stands_for_it(branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 25)
    await RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY).all()
    current = {str(node.summary_id) for node in await branch.summaries()}
    prepared = await branch.prepare("What about SHP-0009, order 1009?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    named = {
        source
        for block in prepared.manifest.blocks
        if block.kind == "retrieved"
        for source in block.source_ids
    }
    assert named and named <= current


async def test_each_statement_asks_for_the_tenant(branch: Branch, pool: Pool) -> None:
    from durable_context.errors import UnknownBranch

    await compacted(branch, pool, 7)
    steps = RebuildSteps(pool, branch.branch_uuid, Told(), policy=POLICY)
    steps.request = steps.request.model_copy(update={"tenant": "somebody else"})
    with pytest.raises(UnknownBranch):
        await steps.plan()
