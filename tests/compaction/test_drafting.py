"""When a failed summarizer is asked again, and when the extractive one stands in for it."""

from datetime import timedelta

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import PlanRequest, SummarizeRequest, SummarizeResult
from durable_context.database import Pool
from durable_context.errors import (
    DatabaseUnavailable,
    InputTooLong,
    InvalidDraft,
    SummarizerRejected,
    SummarizerUnavailable,
)
from durable_context.models import Compaction
from durable_context.summarizers import Attempt, Summarizer, SummaryDraft
from durable_context.summarizers.chain import SummarizerChain
from durable_context.summarizers.extractive import RECIPE, ExtractiveSummarizer
from tests.compaction.scripted import ScriptedSummarizer
from tests.turns import numbered

POLICY = CompactionPolicy()
LONG = POLICY.degrade_after
FAILED = Attempt(made_by="scripted/1", outcome="failed", input_tokens=700)


class Leaf:
    """The first leaf of a branch, as one summarizer makes it."""

    def __init__(self, pool: Pool, branch: Branch) -> None:
        self._pool = pool
        self._branch = branch
        self._target = {"tenant": "default", "branch_uuid": branch.branch_uuid}

    async def summarize(
        self,
        summarizer: Summarizer,
        failing_for: timedelta = timedelta(0),
        policy: CompactionPolicy = POLICY,
    ) -> SummarizeResult:
        compactor = Compactor(self._pool, summarizer)
        plan = await compactor.plan(PlanRequest(**self._target, policy=policy))
        assert plan.compaction_id is not None
        request = SummarizeRequest(
            **self._target, compaction_id=plan.compaction_id, node=plan.nodes[0], policy=policy
        )
        return await compactor.summarize(request, failing_for=failing_for)

    async def compaction(self) -> Compaction:
        [compaction] = await self._branch.compactions()
        return compaction


@pytest.fixture
async def leaf(client: ContextClient, pool: Pool) -> Leaf:
    branch = await client.open_branch("conversation")
    for turn in range(1, 9):
        await branch.record_turn(numbered(turn))
    return Leaf(pool, branch)


@pytest.mark.parametrize(
    "error", [SummarizerUnavailable("busy"), InvalidDraft("empty"), ValueError("a bug")]
)
async def test_what_may_pass_is_raised_for_temporal_to_retry(leaf: Leaf, error: Exception) -> None:
    with pytest.raises((SummarizerUnavailable, InvalidDraft)):
        await leaf.summarize(ScriptedSummarizer(error))
    compaction = await leaf.compaction()
    assert compaction.status == "running" and compaction.attempts == 1 and compaction.error


@pytest.mark.parametrize(
    "error", [SummarizerUnavailable("busy"), InvalidDraft("empty"), ValueError("a bug")]
)
async def test_what_has_failed_for_long_is_replaced(leaf: Leaf, error: Exception) -> None:
    result = await leaf.summarize(ScriptedSummarizer(error), failing_for=LONG)
    assert result.degraded and result.made_by == RECIPE and result.recipe == "scripted/1"


@pytest.mark.parametrize("error", [SummarizerRejected("bad key"), InputTooLong("too long")])
async def test_what_cannot_pass_is_replaced_at_once(leaf: Leaf, error: Exception) -> None:
    result = await leaf.summarize(ScriptedSummarizer(error))
    assert result.degraded and result.made_by == RECIPE


async def test_a_wait_that_ends_after_the_patience_is_not_begun(leaf: Leaf) -> None:
    busy = SummarizerUnavailable("busy", retry_after=LONG.total_seconds() + 1)
    assert (await leaf.summarize(ScriptedSummarizer(busy))).degraded


async def test_a_summarizer_that_has_failed_for_long_is_asked_once_more(leaf: Leaf) -> None:
    result = await leaf.summarize(ScriptedSummarizer(), failing_for=LONG)
    assert not result.degraded and result.made_by == "scripted/1"


async def test_a_draft_that_must_not_be_published_is_not_stored(leaf: Leaf) -> None:
    empty = SummaryDraft(headline="", text=" ", made_by="scripted/1", attempts=(FAILED,))
    summarizer = ScriptedSummarizer(empty)
    with pytest.raises(InvalidDraft):
        await leaf.summarize(summarizer)
    result = await leaf.summarize(summarizer)
    assert not result.reused and len(summarizer.asked) == 2


async def test_the_cost_of_failed_attempts_is_kept(leaf: Leaf) -> None:
    summarizer = ScriptedSummarizer(
        SummarizerUnavailable("busy", attempts=(FAILED,)), InvalidDraft("empty", (FAILED, FAILED))
    )
    for _ in range(2):
        with pytest.raises((SummarizerUnavailable, InvalidDraft)):
            await leaf.summarize(summarizer)
    await leaf.summarize(summarizer)
    compaction = await leaf.compaction()
    assert compaction.attempts == 2 and compaction.recipe == "scripted/1"
    assert [call["input_tokens"] for call in compaction.usage] == [700, 700, 700, 500]


async def test_the_extractive_summarizer_never_degrades(leaf: Leaf) -> None:
    broken = ScriptedSummarizer(InvalidDraft("no"), InvalidDraft("no"), recipe=RECIPE)
    with pytest.raises(InvalidDraft):
        await leaf.summarize(broken)
    with pytest.raises(SummarizerRejected):
        await leaf.summarize(broken, failing_for=LONG)
    assert (await leaf.compaction()).status == "failed"
    result = await leaf.summarize(ScriptedSummarizer(recipe=RECIPE))
    assert not result.degraded


async def test_a_chain_that_comes_down_to_extracts_is_degraded(leaf: Leaf) -> None:
    refusing = ScriptedSummarizer(SummarizerRejected("bad key"))
    result = await leaf.summarize(SummarizerChain([refusing, ExtractiveSummarizer()]))
    assert result.degraded and result.made_by == RECIPE
    assert result.recipe == f"scripted/1 > {RECIPE}"


async def test_a_chain_with_another_model_or_extracts_first_is_not_degraded(
    client: ContextClient, pool: Pool
) -> None:
    refusing = ScriptedSummarizer(SummarizerRejected("bad key"))
    other = ScriptedSummarizer(recipe="other/1")
    for number, (first, second) in enumerate(((refusing, other), (ExtractiveSummarizer(), other))):
        branch = await client.open_branch(f"conversation {number}")
        for turn in range(1, 9):
            await branch.record_turn(numbered(turn))
        result = await Leaf(pool, branch).summarize(SummarizerChain([first, second]))
        assert not result.degraded and result.made_by == (first, second)[1 - number].recipe


async def test_a_database_that_is_away_degrades_nothing(leaf: Leaf) -> None:
    away = ScriptedSummarizer(DatabaseUnavailable("away"))
    with pytest.raises(DatabaseUnavailable):
        await leaf.summarize(away, failing_for=LONG)


async def test_a_summarizer_that_hangs_is_given_up(leaf: Leaf) -> None:
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    policy = POLICY.model_copy(update={"summarizer_timeout": timedelta(milliseconds=50)})
    with pytest.raises(SummarizerUnavailable, match=r"within 0\.25 s"):
        await leaf.summarize(summarizer, policy=policy)
