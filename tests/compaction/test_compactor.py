"""Compaction's four steps on a real database: what they publish, and what repeating them does."""

import asyncio
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.lag import lag_of
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import (
    CommitRequest,
    CommitResult,
    IndexRequest,
    Plan,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.database import Pool
from durable_context.errors import StalePlan, UnknownBranch
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.turns import exchange, numbered

POLICY = CompactionPolicy()


class Steps:
    """The steps of one branch with one summarizer, as the workflow strings them together."""

    def __init__(
        self, pool: Pool, branch: Branch, summarizer: ScriptedSummarizer | None = None
    ) -> None:
        self.summarizer = summarizer or ScriptedSummarizer()
        self.compactor = Compactor(pool, self.summarizer)
        self.target = {"tenant": "default", "branch_uuid": branch.branch_uuid}

    async def plan(self, policy: CompactionPolicy = POLICY, run: str = "run") -> Plan:
        request = PlanRequest(**self.target, policy=policy)
        return await self.compactor.plan(request, RunId("workflow", run))

    async def summarize(self, plan: Plan) -> list[SummarizeResult]:
        made: list[SummarizeResult] = []
        for node in plan.nodes:
            assert plan.compaction_id is not None
            request = SummarizeRequest(
                **self.target,
                compaction_id=plan.compaction_id,
                node=node,
                policy=POLICY,
                drafts=tuple(one.summary_id for one in made),
            )
            made.append(await self.compactor.summarize(request))
        return made

    async def commit(self, plan: Plan, made: list[SummarizeResult]) -> CommitResult:
        assert plan.compaction_id is not None
        request = CommitRequest(
            **self.target,
            compaction_id=plan.compaction_id,
            checkpoint_turn=plan.checkpoint_turn,
            summary_ids=tuple(one.summary_id for one in made),
            policy=POLICY,
        )
        return await self.compactor.commit(request)

    async def index(self, from_turn: int, to_turn: int) -> None:
        await self.compactor.index(
            IndexRequest(**self.target, from_turn=from_turn, to_turn=to_turn)
        )

    async def all(self) -> CommitResult:
        plan = await self.plan()
        result = await self.commit(plan, await self.summarize(plan))
        await self.index(plan.nodes[0].from_turn, plan.nodes[0].to_turn)
        return result


async def record(branch: Branch, count: int) -> None:
    head = (await branch.inspect()).head_turn
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


@pytest.fixture
def steps(pool: Pool, branch: Branch) -> Steps:
    return Steps(pool, branch)


async def test_eight_turns_give_one_summary_and_one_checkpoint(
    branch: Branch, steps: Steps
) -> None:
    await record(branch, 7)
    assert (await steps.plan()).nodes == ()
    await record(branch, 1)
    plan = await steps.plan()
    assert [(node.level, node.from_turn, node.to_turn) for node in plan.nodes] == [(0, 1, 6)]
    result = await steps.commit(plan, await steps.summarize(plan))
    assert not result.more
    state = await branch.inspect()
    assert state.checkpoint is not None and state.checkpoint.turn_no == 6
    assert [turn.turn_no for turn in state.tail] == [7, 8]
    [summary] = state.frontier
    assert (summary.from_turn, summary.to_turn, summary.level) == (1, 6, 0)
    assert summary.covered_tokens == sum(turn.token_count for turn in await branch.turns(1, 6))
    assert summary.headline in state.checkpoint.text
    [compaction] = state.compactions
    assert compaction.status == "completed" and compaction.attempts == 1
    assert compaction.tokens_before == summary.covered_tokens == plan.tokens_before
    assert compaction.tokens_after == summary.token_count
    assert compaction.run_id == "run"


async def test_the_fourth_leaf_merges_and_the_leaves_stay_current(
    branch: Branch, steps: Steps
) -> None:
    await record(branch, 26)
    results = [await steps.all() for _ in range(4)]
    assert [result.checkpoint_turn for result in results] == [6, 12, 18, 24]
    assert [result.more for result in results] == [True, True, True, False]
    nodes = await branch.summaries()
    assert [(node.level, node.from_turn, node.to_turn) for node in nodes] == [
        (0, 1, 6),
        (1, 1, 24),
        (0, 7, 12),
        (0, 13, 18),
        (0, 19, 24),
    ]
    state = await branch.inspect()
    assert [node.level for node in state.frontier] == [1]
    merge = steps.summarizer.asked[-1]
    assert [node.from_turn for node in merge.nodes] == [1, 7, 13, 19]
    assert state.frontier[0].input_tokens == sum(node.token_count for node in merge.nodes)
    assert state.frontier[0].covered_tokens == sum(node.covered_tokens for node in merge.nodes)


async def test_checkpoints_carry_ledger_and_totals_along(branch: Branch, steps: Steps) -> None:
    await record(branch, 14)
    await steps.all()
    await steps.all()
    first, second = await branch.checkpoints()
    assert second.parent_id == first.checkpoint_id
    values = {entry.value for entry in second.ledger}
    assert {"SHP-0001", "SHP-0012"} <= values
    assert not any(entry.value == "SHP-0007" for entry in first.ledger)
    assert second.token_usage["covered_tokens"] == sum(
        turn.token_count for turn in await branch.turns(1, 12)
    )
    assert second.token_usage["model_calls"] == 2
    assert second.token_usage["model_input_tokens"] == 1_000


async def test_a_repeated_step_finds_what_is_there(branch: Branch, steps: Steps) -> None:
    await record(branch, 8)
    plan = await steps.plan()
    first = await steps.summarize(plan)
    again = await steps.summarize(plan)
    assert [one.reused for one in (*first, *again)] == [False, True]
    assert again[0].summary_id == first[0].summary_id
    assert len(steps.summarizer.asked) == 1
    committed = await steps.commit(plan, first)
    assert await steps.commit(plan, first) == committed
    assert len(await branch.checkpoints()) == 1


async def test_another_run_finds_the_draft_of_one_that_died(
    branch: Branch, pool: Pool, steps: Steps
) -> None:
    await record(branch, 8)
    await steps.summarize(await steps.plan())
    later = Steps(pool, branch)
    plan = await later.plan(run="another")
    [result] = await later.summarize(plan)
    assert result.reused and not later.summarizer.asked
    await later.commit(plan, [result])
    [compaction] = await branch.compactions()
    assert compaction.status == "completed" and compaction.run_id == "another"


async def test_two_planners_of_one_segment_share_its_compaction(
    branch: Branch, steps: Steps
) -> None:
    await record(branch, 8)
    plans = await asyncio.gather(*(steps.plan() for _ in range(5)))
    assert len({plan.compaction_id for plan in plans}) == 1
    assert len(await branch.compactions()) == 1


async def test_a_compaction_that_was_left_behind_is_marked_failed(
    branch: Branch, steps: Steps
) -> None:
    await record(branch, 8)
    await steps.plan(CompactionPolicy(segment_turns=4))
    plan = await steps.plan()
    newest, oldest = sorted(await branch.compactions(), key=lambda c: -c.to_turn)
    assert newest.compaction_id == plan.compaction_id and newest.status == "running"
    assert oldest.status == "failed" and "left behind" in (oldest.error or "")


async def test_commit_of_an_outdated_plan_publishes_nothing(
    branch: Branch, pool: Pool, steps: Steps
) -> None:
    await record(branch, 8)
    plan = await steps.plan(CompactionPolicy(segment_turns=4))
    made = await steps.summarize(plan)
    await steps.all()
    with pytest.raises(StalePlan):
        await steps.commit(plan, made)
    assert [node.to_turn for node in await branch.summaries()] == [6]
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6]


async def test_two_commits_at_once_make_one_checkpoint(
    branch: Branch, pool: Pool, steps: Steps
) -> None:
    await record(branch, 8)
    plan = await steps.plan()
    made = await steps.summarize(plan)
    results = await asyncio.gather(*(steps.commit(plan, made) for _ in range(6)))
    assert len({result.checkpoint_id for result in results}) == 1
    assert len(await branch.checkpoints()) == 1


async def test_two_workers_with_other_summarizers_publish_one_summary_each_range(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 26)
    workers = [
        Steps(pool, branch, ScriptedSummarizer(recipe=f"scripted/{number}")) for number in (1, 2)
    ]

    async def work(steps: Steps) -> None:
        while (plan := await steps.plan()).nodes:
            try:
                await steps.commit(plan, await steps.summarize(plan))
            except StalePlan:
                continue

    await asyncio.gather(*(work(steps) for steps in workers))
    ranges = [(node.level, node.from_turn) for node in await branch.summaries()]
    assert len(ranges) == len(set(ranges)) == 5
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6, 12, 18, 24]


async def test_a_turn_that_arrives_meanwhile_changes_nothing_of_what_is_planned(
    branch: Branch, steps: Steps
) -> None:
    await record(branch, 8)
    plan = await steps.plan()
    await record(branch, 3)
    made = await steps.summarize(plan)
    await record(branch, 3)
    result = await steps.commit(plan, made)
    assert result.checkpoint_turn == 6 and result.more
    assert len(steps.summarizer.asked) == 1
    await steps.all()
    assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6, 12]
    assert len(steps.summarizer.asked) == 2


async def test_drafts_are_invisible_until_they_are_committed(branch: Branch, steps: Steps) -> None:
    await record(branch, 8)
    before = await branch.inspect()
    plan = await steps.plan()
    await steps.summarize(plan)
    after = await branch.inspect()
    assert await branch.summaries() == ()
    assert (after.checkpoint, after.frontier, after.lag.turns) == (None, (), before.lag.turns)


async def test_a_plan_that_finds_nothing_due_is_told_of_once(branch: Branch, steps: Steps) -> None:
    await record(branch, 3)
    for _ in range(3):
        assert (await steps.plan()).nodes == ()
    await record(branch, 1)
    await steps.plan()
    await record(branch, 4)
    await steps.all()
    events = [event async for event in branch.events()]
    assert [event.kind for event in events if event.kind.startswith("compaction")] == [
        "compaction_skipped",
        "compaction_skipped",
        "compaction_started",
        "compaction_completed",
    ]
    [first, second] = [event for event in events if event.kind == "compaction_skipped"]
    assert (first.turn_no, second.turn_no) == (3, 4)
    assert first.data == {"reason": "turn", "checkpoint_turn": 0}


async def test_lag_counts_turns_as_compaction_reads_them(branch: Branch, pool: Pool) -> None:
    large = CompactionPolicy(segment_turns=100, run_raw_tokens=1_000)
    content = "\n".join(f"row {number} of the report" for number in range(600))
    await branch.record_turn([{"role": "user", "content": "Check the ships."}], continues=True)
    for turn in range(8):
        await branch.record_turn(exchange(f"call-{turn}", content), continues=True)
    tail, store = await branch.turns(), CompactionStore(pool, "default", branch.branch_uuid)
    sizes = await store.sizes(0, len(tail))
    lag = lag_of(tail, 1, large, sizes)
    kept, raw = 0, 0
    for size in reversed(sizes):
        raw += size.raw_tokens
        kept += raw <= large.run_raw_tokens
    assert lag.turns == len(tail) - max(kept, large.keep_raw_turns) > 0
    assert lag.tokens == sum(size.token_count for size in sizes[: lag.turns])
    assert lag.tokens < sum(turn.token_count for turn in tail[: lag.turns])


async def test_another_tenant_has_no_such_branch(branch: Branch, steps: Steps) -> None:
    await record(branch, 8)
    steps.target = steps.target | {"tenant": "another"}
    with pytest.raises(UnknownBranch):
        await steps.plan()


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.integers(1, 120), min_size=1, max_size=40),
    pauses=st.lists(st.integers(1, 40), max_size=8),
)
async def test_importing_and_compacting_as_it_goes_give_the_same_tree(
    client: ContextClient, pool: Pool, sizes: list[int], pauses: list[int]
) -> None:
    policy = CompactionPolicy(segment_turns=3, segment_tokens=400, fan_out=2)
    often = await client.open_branch(uuid4().hex)
    late = await client.open_branch(uuid4().hex)
    for number, size in enumerate(sizes, start=1):
        for branch in (often, late):
            message = f"Turn {number}: {'word ' * size}"
            await branch.record_turn([{"role": "user", "content": message}])
        if number in pauses:
            await compact_all(pool, often.branch_uuid, policy)
    for branch in (often, late):
        await compact_all(pool, branch.branch_uuid, policy)
    assert await _tree(often) == await _tree(late)


async def _tree(branch: Branch) -> list[tuple[object, ...]]:
    nodes = [
        (node.level, node.from_turn, node.to_turn, node.headline, node.text)
        for node in await branch.summaries()
    ]
    return [*nodes, *((c.turn_no, c.text, c.ledger) for c in await branch.checkpoints())]
