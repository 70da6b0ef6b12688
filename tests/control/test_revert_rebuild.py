"""Going back while nodes are made anew, or after they were: nothing of it comes back."""

from datetime import timedelta
from typing import Any

import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.contracts.rebuild import TreeReason
from durable_context.database import Pool
from durable_context.errors import StalePlan
from durable_context.summarizers import SummaryDraft, SummaryRequest
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.rebuilding import RebuildSteps
from tests.turns import numbered

POLICY = CompactionPolicy(
    segment_turns=6, fan_out=2, keep_raw_turns=1, summary_max_tokens=60, degrade_after=timedelta(0)
)
WIDE = POLICY.model_copy(update={"fan_out": 4})

_AS_IF_KEPT_LATER = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision, headline, text,
    token_count, input_tokens, covered_tokens, made_by
)
select tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision + 1, headline,
    text, token_count, input_tokens, covered_tokens, made_by
from durable_context.summaries where summary_id = $1 returning summary_id
"""


class Parrot(Told):
    """Says a word of its own of turns, and of nodes that say it."""

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        draft = await super().summarize(request)
        if request.nodes and not any("ostrich" in node.text for node in request.nodes):
            return draft
        return draft.model_copy(update={"text": f"An ostrich. {draft.text}"})


async def test_a_draft_that_merges_what_a_revert_rejected_is_not_published(
    client: ContextClient, pool: Pool
) -> None:
    branch = await _compacted(client, pool, 13, WIDE)
    old = (await branch.checkpoints())[-1]
    await _rebuild(pool, branch, WIDE).all()
    steps = _rebuild(pool, branch, POLICY, "merge")
    plan = await steps.plan()
    draft = await steps.make(plan, plan.nodes[0])
    await branch.revert(old.checkpoint_id)
    with pytest.raises(StalePlan):
        await steps.replace(draft)
    assert not await _speaks(branch)


async def test_a_draft_that_is_kept_only_after_the_revert_is_not_published_either(
    client: ContextClient, pool: Pool
) -> None:
    branch = await _compacted(client, pool, 13, WIDE)
    old = (await branch.checkpoints())[-1]
    await _rebuild(pool, branch, WIDE).all()
    steps = _rebuild(pool, branch, POLICY, "merge")
    plan = await steps.plan()
    draft = await steps.make(plan, plan.nodes[0])
    await branch.revert(old.checkpoint_id)
    late = await pool.fetchval(_AS_IF_KEPT_LATER, draft)
    with pytest.raises(StalePlan, match="the branch was reverted since the rebuild began"):
        await steps.replace(late)
    assert not await _speaks(branch)


async def test_a_revert_fails_the_running_compactions_of_a_rebuild(
    client: ContextClient, pool: Pool
) -> None:
    branch = await _compacted(client, pool, 13, WIDE)
    plan = await _rebuild(pool, branch, WIDE, from_turn=1, to_turn=6).plan()
    assert [node.to_turn for node in plan.nodes] == [6]
    await branch.revert(6)
    [running] = [one for one in await branch.compactions() if one.reason == "rebuild"]
    assert (running.status, running.error) == ("failed", "the branch was reverted to turn 6")


async def test_going_back_to_the_newest_checkpoint_takes_a_rebuild_back_that_is_half_way(
    client: ContextClient, pool: Pool
) -> None:
    branch = await _compacted(client, pool, 13, POLICY)
    old, nodes = (await branch.checkpoints())[-1], await branch.summaries()
    steps = _rebuild(pool, branch, POLICY)
    await steps.batch()
    assert (await branch.checkpoints())[-1] == old and await _speaks(branch)
    assert (await branch.foresee_revert(old.checkpoint_id)).restored == 2
    copy = await branch.revert(old.checkpoint_id)
    assert copy is not None and copy.text == old.text
    assert [node.text for node in await branch.summaries()] == [node.text for node in nodes]
    assert await steps.all() == [] and not await _speaks(branch)
    for again in (old.checkpoint_id, copy.checkpoint_id, 12):
        assert not (await branch.foresee_revert(again)).changes
        assert await branch.revert(again) == copy


async def test_a_fork_that_followed_its_parent_goes_back_to_what_it_saw_before(
    client: ContextClient, pool: Pool
) -> None:
    parent = await _compacted(client, pool, 13, WIDE)
    fork = await parent.fork("fork")
    await _record(fork, 14, 19)
    await compact_all(pool, fork.branch_uuid, WIDE, Told())
    old, nodes = (await fork.checkpoints())[-1], await fork.summaries()
    await _rebuild(pool, parent, WIDE).all()
    assert not await _shows(fork)
    await RebuildSteps(pool, fork.branch_uuid, Told(), "upgrade", WIDE).all()
    assert await _shows(fork)
    copy = await fork.revert(old.checkpoint_id)
    assert copy is not None and (copy.text, copy.frontier) == (old.text, old.frontier)
    assert await fork.summaries() == nodes
    assert (await fork.verify()).findings == ()
    for again in (old.checkpoint_id, copy.checkpoint_id, 18):
        assert not (await fork.foresee_revert(again)).changes
        assert await fork.revert(again) == copy


async def _compacted(
    client: ContextClient, pool: Pool, turns: int, policy: CompactionPolicy
) -> Branch:
    branch = await client.open_branch("conversation")
    await _record(branch, 1, turns)
    await compact_all(pool, branch.branch_uuid, policy, Told())
    return branch


async def _record(branch: Branch, from_turn: int, to_turn: int) -> None:
    for turn in range(from_turn, to_turn + 1):
        await branch.record_turn(numbered(turn))


def _rebuild(
    pool: Pool,
    branch: Branch,
    policy: CompactionPolicy,
    reason: TreeReason = "rebuild",
    **options: Any,
) -> RebuildSteps:
    parrot = Parrot("model:other/1")
    return RebuildSteps(pool, branch.branch_uuid, parrot, reason, policy, **options)


async def _speaks(branch: Branch) -> bool:
    """Whether anything that the branch shows or finds has the ostrich in it."""
    return await _shows(branch) or bool(await branch.search("ostrich"))


async def _shows(branch: Branch) -> bool:
    prepared = await branch.prepare("Who?", budget=Budget(max_tokens=30_000))
    assert isinstance(prepared, PreparedContext)
    shown = (prepared.messages, await branch.summaries(), await branch.checkpoints())
    return "ostrich" in str(shown)
