"""Workers killed with SIGKILL: nothing is lost, nothing is done or paid for twice."""

import asyncio
import random
from datetime import timedelta
from itertools import pairwise

from durable_context import Branch, ContextClient
from durable_context.contracts import COMMIT, SUMMARIZE
from tests.model_server import ModelServer
from tests.workflows.killed_workers import worker_process
from tests.workflows.models import model_summarizer
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker, record
from tests.workflows.worker_process import STALLED, WorkerSetup

KILLS = 3


async def test_a_crash_between_write_and_acknowledgement_calls_the_model_once(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    setup: WorkerSetup,
    model: ModelServer,
) -> None:
    await record(branch, 8)
    stalling = setup.model_copy(update={"stall_at": SUMMARIZE, "model_url": model.base_url})
    async with worker_process(stalling) as worker:
        await orchestration.hint(branch)
        await worker.said(STALLED)
        await worker.kill()
    assert await branch.summaries() == ()
    async with start_worker(model_summarizer(model.base_url)):
        result = await orchestration.result(branch)
    assert model.count == 1
    assert result.checkpoint_turn == 6 and result.attempts >= 2
    [summary] = await branch.summaries()
    assert not summary.degraded
    [compaction] = await branch.compactions()
    assert compaction.attempts == 1


async def test_a_commit_that_was_not_acknowledged_is_not_repeated(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    setup: WorkerSetup,
) -> None:
    await record(branch, 8)
    async with worker_process(setup.model_copy(update={"stall_at": COMMIT})) as worker:
        await orchestration.hint(branch)
        await worker.said(STALLED)
        await worker.kill()
    [before] = await branch.checkpoints()
    async with start_worker():
        result = await orchestration.result(branch)
    assert result.checkpoint_turn == 6
    assert await branch.checkpoints() == (before,)


async def test_workers_killed_in_mid_compaction_leave_the_same_tree(
    branch: Branch,
    client: ContextClient,
    orchestration: Orchestration,
    start_worker: StartWorker,
    setup: WorkerSetup,
) -> None:
    await record(branch, 60)
    chance = random.Random(60)
    await orchestration.hint(branch)
    for _ in range(KILLS):
        async with worker_process(setup):
            await asyncio.sleep(chance.uniform(0.05, 0.6))
    async with start_worker():
        assert (await orchestration.result(branch)).checkpoint_turn == 54
    undisturbed = await client.open_branch("undisturbed")
    await record(undisturbed, 60)
    async with start_worker():
        await orchestration.compact(undisturbed)
    assert await _tree(branch) == await _tree(undisturbed)
    assert {compaction.status for compaction in await branch.compactions()} == {"completed"}
    for earlier, later in pairwise(await branch.checkpoints()):
        assert later.parent_id == earlier.checkpoint_id


async def test_two_workers_share_the_work_and_repeat_none_of_it(
    client: ContextClient,
    orchestration: Orchestration,
    start_worker: StartWorker,
    setup: WorkerSetup,
    model: ModelServer,
) -> None:
    branches = [await client.open_branch(f"conversation-{number}") for number in range(5)]
    for branch in branches:
        await record(branch, 26)
    other = setup.model_copy(update={"model_url": model.base_url})
    # A busy machine must not look like a lost worker here: its call would be made again.
    patient = QUICK.model_copy(update={"worker_lost_after": timedelta(seconds=30)})
    async with worker_process(other), start_worker(model_summarizer(model.base_url)):
        results = await asyncio.gather(
            *(orchestration.compact(branch, patient) for branch in branches)
        )
    assert [result.checkpoint_turn for result in results] == [24] * len(branches)
    assert model.count == 5 * len(branches)
    for branch in branches:
        assert [checkpoint.turn_no for checkpoint in await branch.checkpoints()] == [6, 12, 18, 24]


async def _tree(branch: Branch) -> list[tuple[object, ...]]:
    nodes = [
        (node.level, node.from_turn, node.to_turn, node.text) for node in await branch.summaries()
    ]
    return [*nodes, *((checkpoint.turn_no,) for checkpoint in await branch.checkpoints())]
