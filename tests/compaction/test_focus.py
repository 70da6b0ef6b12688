"""A compaction with a focus: where its text is kept, whose nodes it makes, and who knows of it."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from durable_context import Branch, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.focus import focused_recipe, load_focus, store_focus
from durable_context.contracts import Plan, PlanRequest, SummarizeRequest, SummarizeResult
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.policy import CompactionPolicy
from tests.compaction.scripted import ScriptedSummarizer
from tests.events import Connection
from tests.turns import numbered

FOCUS = "what the customer was promised"
POLICY = CompactionPolicy(fan_out=2)
DEFAULT = "default"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    branch = await client.open_branch("orders")
    for turn in range(1, 9):
        await branch.record_turn(numbered(turn))
    return branch


class Steps:
    """Plan and summarize of one branch."""

    def __init__(self, pool: Pool, branch: Branch) -> None:
        self.summarizer = ScriptedSummarizer()
        self._compactor = Compactor(pool, self.summarizer)
        self._target: dict[str, Any] = {"tenant": DEFAULT, "branch_uuid": branch.branch_uuid}

    async def plan(self, focus_id: UUID | None = None) -> Plan:
        request = PlanRequest(**self._target, policy=POLICY, focus_id=focus_id)
        return await self._compactor.plan(request)

    async def leaf(self, plan: Plan) -> SummarizeResult:
        assert plan.compaction_id is not None
        request = SummarizeRequest(
            **self._target,
            compaction_id=plan.compaction_id,
            node=plan.nodes[0],
            policy=POLICY,
        )
        return await self._compactor.summarize(request)


async def test_the_summarizer_is_told_and_the_node_bears_it_in_its_recipe(
    pool: Pool, branch: Branch
) -> None:
    steps = Steps(pool, branch)
    focus_id = await store_focus(pool, DEFAULT, branch.branch_uuid, f"  {FOCUS}\n")
    plan = await steps.plan(focus_id)
    made = await steps.leaf(plan)
    assert [asked.focus for asked in steps.summarizer.asked] == [FOCUS]
    assert made.recipe == focused_recipe("scripted/1", FOCUS)
    assert made.made_by == "scripted/1"
    assert FOCUS not in plan.model_dump_json() + made.model_dump_json()
    assert (await steps.leaf(plan)).reused, "repeated, it asks no one"


async def test_a_plan_without_a_focus_makes_the_plain_node_though_one_had_one_before(
    pool: Pool, branch: Branch
) -> None:
    steps = Steps(pool, branch)
    focus_id = await store_focus(pool, DEFAULT, branch.branch_uuid, FOCUS)
    focused = await steps.leaf(await steps.plan(focus_id))
    plain = await steps.leaf(await steps.plan())
    assert plain.recipe == "scripted/1"
    assert (plain.reused, plain.summary_id == focused.summary_id) == (False, False)
    assert [asked.focus for asked in steps.summarizer.asked] == [FOCUS, None]


async def test_the_compaction_keeps_its_focus(
    pool: Pool, branch: Branch, connection: Connection
) -> None:
    focus_id = await store_focus(pool, DEFAULT, branch.branch_uuid, FOCUS)
    plan = await Steps(pool, branch).plan(focus_id)
    assert plan.compaction_id is not None
    kept = await connection.fetchval(
        "select focus from durable_context.compactions where compaction_id = $1", plan.compaction_id
    )
    assert kept == FOCUS
    branch_uuid = branch.branch_uuid
    for found_by in (focus_id, plan.compaction_id):
        assert await load_focus(pool, DEFAULT, branch_uuid, found_by) == FOCUS
    assert await load_focus(pool, "other", branch_uuid, focus_id) is None
    assert await load_focus(pool, DEFAULT, uuid4(), focus_id) is None


async def test_the_same_focus_is_stored_once_for_each_branch(pool: Pool, branch: Branch) -> None:
    fork = await branch.fork("idea")
    first = await store_focus(pool, DEFAULT, branch.branch_uuid, FOCUS)
    assert await store_focus(pool, DEFAULT, branch.branch_uuid, FOCUS) == first
    assert await store_focus(pool, DEFAULT, fork.branch_uuid, FOCUS) != first
    with pytest.raises(UnknownBranch):
        await store_focus(pool, "other", branch.branch_uuid, FOCUS)
    with pytest.raises(InvalidArgument, match="1 to 500 characters"):
        await store_focus(pool, DEFAULT, branch.branch_uuid, "x" * 501)


async def test_the_longest_focus_fits_whatever_it_is_written_in(pool: Pool, branch: Branch) -> None:
    longest = "".join(chr(0x1F300 + number) for number in range(500))
    focus_id = await store_focus(pool, DEFAULT, branch.branch_uuid, longest)
    assert await load_focus(pool, DEFAULT, branch.branch_uuid, focus_id) == longest


async def test_a_fork_adopts_no_node_of_another_focus(pool: Pool, branch: Branch) -> None:
    steps = Steps(pool, branch)
    await steps.leaf(await steps.plan())
    fork = await branch.fork("idea")
    at_fork = Steps(pool, fork)
    focus_id = await store_focus(pool, DEFAULT, fork.branch_uuid, FOCUS)
    made = await at_fork.leaf(await at_fork.plan(focus_id))
    assert (made.reused, made.recipe) == (False, focused_recipe("scripted/1", FOCUS))
