"""Pauses of branches and tenants: who is told, what waits, and what goes on as before."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import CommitRequest, PlanRequest, SummarizeRequest
from durable_context.control.pausing import Pausing
from durable_context.database import Pool
from durable_context.errors import CompactionPaused, InvalidArgument, UnknownBranch
from durable_context.policy import CompactionPolicy
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.compacting import compact_all, compact_once
from tests.prompts import check_coverage
from tests.turns import numbered

MakeClient = Callable[..., Awaitable[ContextClient]]
POLICY = CompactionPolicy()


async def record(client: ContextClient, conversation: str, turns: int = 8) -> Branch:
    branch = await client.open_branch(conversation)
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    return branch


async def test_nothing_of_a_paused_branch_is_planned_until_it_goes_on(
    pool: Pool, client: ContextClient
) -> None:
    branch = await record(client, "orders")
    await branch.pause("the model is being changed")
    compactor = Compactor(pool, ExtractiveSummarizer())
    plan = await compactor.plan(
        PlanRequest(tenant="default", branch_uuid=branch.branch_uuid, policy=POLICY)
    )
    assert (plan.paused, plan.nodes, plan.artifacts, plan.compaction_id) == (True, (), 0, None)
    assert await compact_all(pool, branch.branch_uuid) == 0
    assert await branch.resume() is False, "there is no Temporal to tell"
    assert await compact_all(pool, branch.branch_uuid) == 1


async def test_a_branch_says_that_it_is_paused_since_when_and_why(client: ContextClient) -> None:
    branch = await record(client, "orders", 1)
    fork = await branch.fork("idea")
    pause = await branch.pause("budget")
    assert (pause.of, pause.because) == ("branch", "budget")
    assert (await branch.inspect()).pauses == await branch.pauses() == (pause,)
    assert (await fork.inspect()).pauses == (), "a fork is a branch of its own"
    assert [info.pauses for info in await client.branches("orders")] == [(pause,), ()]
    whole = await client.pause()
    assert (await branch.inspect()).pauses == (pause, whole)
    assert (await fork.inspect()).pauses == (whole,)
    assert await client.paused() == whole
    await client.resume()
    await branch.resume()
    assert (await branch.inspect()).pauses == ()
    assert await client.paused() is None


async def test_pausing_again_keeps_since_when_and_takes_a_new_reason(
    client: ContextClient,
) -> None:
    branch = await client.open_branch("orders")
    first = await branch.pause("budget")
    assert await branch.pause() == first
    assert await branch.pause("audit") == first.model_copy(update={"because": "audit"})
    of_all = await client.pause()
    assert await client.pause("audit") == of_all.model_copy(update={"because": "audit"})
    for _ in range(2):
        await branch.resume()
        await client.resume()
    assert await branch.pauses() == ()


async def test_a_paused_tenant_pauses_what_it_has_and_gets_and_nobody_else(
    pool: Pool, client: ContextClient, make_client: MakeClient
) -> None:
    other = await record(await make_client(tenant="other"), "orders")
    old = await record(client, "orders")
    await client.pause()
    new = await record(client, "returns")
    for branch, tenant, due in ((old, "default", False), (new, "default", False)):
        assert await compact_once(pool, branch.branch_uuid, POLICY, tenant) is due
    assert await compact_once(pool, other.branch_uuid, POLICY, "other")
    await old.pause()
    await client.resume()
    assert not await compact_once(pool, old.branch_uuid, POLICY), "it is paused itself"
    assert await compact_once(pool, new.branch_uuid, POLICY)


async def test_turns_are_recorded_and_prompts_prepared_as_before(
    pool: Pool, client: ContextClient
) -> None:
    branch = await record(client, "orders", 14)
    await compact_once(pool, branch.branch_uuid, POLICY)
    before = await branch.prepare("And now?", budget=Budget(max_tokens=8_000))
    await branch.pause()
    prepared = await branch.prepare("And now?", budget=Budget(max_tokens=8_000))
    assert isinstance(before, PreparedContext) and isinstance(prepared, PreparedContext)
    assert prepared.messages == before.messages
    check_coverage(prepared, 14)
    turn = await branch.record_turn(numbered(15), prepared=prepared)
    assert turn.turn_no == 15


async def test_a_pause_is_no_reason_to_repeat_a_turn(client: ContextClient) -> None:
    branch = await client.open_branch("orders")
    await branch.pause()
    first = await branch.record_turn(numbered(1), turn_key="one")
    again = await branch.record_turn(numbered(1), turn_key="one")
    assert (again.turn_no, again.repeated) == (first.turn_no, True)


async def test_waiting_for_what_a_pause_holds_up_ends_at_once(client: ContextClient) -> None:
    branch = await record(client, "orders")
    await branch.pause()
    with pytest.raises(CompactionPaused, match="branch 'main' of 'orders', or its tenant, is pau"):
        await branch.wait_until_compacted(timeout=60)
    idle = await record(client, "returns", 2)
    await idle.pause()
    await idle.wait_until_compacted(timeout=0)


async def test_work_that_was_under_way_ends(pool: Pool, client: ContextClient) -> None:
    branch = await record(client, "orders")
    compactor = Compactor(pool, ExtractiveSummarizer())
    target: dict[str, Any] = {
        "tenant": "default",
        "branch_uuid": branch.branch_uuid,
        "policy": POLICY,
    }
    plan = await compactor.plan(PlanRequest(**target))
    await branch.pause()
    work: dict[str, Any] = target | {"compaction_id": plan.compaction_id}
    made = await compactor.summarize(SummarizeRequest(**work, node=plan.nodes[0]))
    ids = (made.summary_id,)
    await compactor.commit(CommitRequest(**work, checkpoint_turn=0, summary_ids=ids))
    [checkpoint] = await branch.checkpoints()
    assert checkpoint.turn_no == 6


async def test_each_pause_and_its_end_is_one_event(client: ContextClient) -> None:
    branch = await record(client, "orders", 1)
    for _ in range(2):
        await branch.pause("budget")
    for _ in range(2):
        await branch.resume()
    kinds = [event.kind async for event in branch.events()]
    assert kinds == ["recorded", "paused", "resumed"]


async def test_a_branch_of_another_tenant_cannot_be_paused(
    pool: Pool, client: ContextClient
) -> None:
    branch = await client.open_branch("orders")
    with pytest.raises(UnknownBranch):
        await Pausing(pool, "other").pause_branch(branch.branch_uuid, None)
    await branch.pause()
    with pytest.raises(UnknownBranch):
        await Pausing(pool, "other").resume_branch(branch.branch_uuid)
    assert len(await branch.pauses()) == 1


@pytest.mark.parametrize("because", ["", "  ", "x" * 501, 5])
async def test_a_reason_that_is_none_is_refused(client: ContextClient, because: str) -> None:
    branch = await client.open_branch("orders")
    with pytest.raises(InvalidArgument, match="allowed is text of 1 to 500 characters"):
        await branch.pause(because)
    with pytest.raises(InvalidArgument, match="because="):
        await client.pause(because)
