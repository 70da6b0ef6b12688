"""When a rebuild ends before all is done: its budget, a model that is down, a revert."""

from durable_context import Branch
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.workflows.orchestration import StartWorker, record
from tests.workflows.test_rebuild import POLICY, Rebuilds, degraded, rebuilds

__all__ = ["rebuilds"]
LEAVES = POLICY.model_copy(update={"segment_turns": 1, "fan_out": 16})


async def test_nodes_that_fail_are_paid_from_the_budget(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 14, LEAVES)
    nodes = await branch.summaries()
    budget = sum(node.input_tokens for node in nodes if node.from_turn > 10)
    told = Told(fails_at=1)
    async with start_worker(told):
        result = await rebuilds.run(policy=LEAVES, max_tokens=budget)
    assert len(told.asked) == result.degraded == 3
    assert 0 < result.tokens_read <= budget
    assert result.left == len(nodes) - 3


async def test_a_run_gives_up_when_small_batches_fail_one_after_another(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await degraded(branch, pool, 25)
    told = Told(fails_at=1)
    async with start_worker(told):
        result = await rebuilds.run()
    assert [request.level for request in told.asked] == [0, 0, 0, 0, 1, 1]
    assert (result.replaced, result.degraded) == (0, 6)


async def test_a_revert_ends_the_open_rebuild_which_says_so_and_replaces_nothing_more(
    branch: Branch, pool: Pool, rebuilds: Rebuilds, start_worker: StartWorker
) -> None:
    await record(branch, 25)
    await compact_all(pool, branch.branch_uuid, POLICY, Told("model:old/1"))
    told = Told("model:new/1")
    told.gate.clear()
    async with start_worker(told):
        assert await rebuilds.start("rebuild")
        await told.arrived.wait()
        await branch.revert(18)
        told.gate.set()
        result = await rebuilds.result()
    assert (result.reverted, result.replaced, result.left) == (True, 0, 0)
    assert {node.recipe for node in await branch.summaries()} == {"model:old/1"}
    assert all(one.status != "running" for one in await branch.compactions())
