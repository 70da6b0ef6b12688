"""Hints and requests at random moments around the closing of runs: none is lost, nothing hangs."""

import asyncio
import random
from collections import Counter

from temporalio.client import WorkflowExecutionStatus

from durable_context import Branch, ContextClient
from durable_context.compaction.temporal_calls import CompactionCalls
from durable_context.contracts import compaction_workflow_id
from tests.turns import numbered
from tests.workflows.orchestration import QUICK, Orchestration, StartWorker

BRANCHES = 25
HINTS = 9
SEED = 20_251
# Every turn is a segment, so that a branch is done exactly when its last turn is compacted. Two
# passes a run: most runs end by continuing as another.
POLICY = QUICK.model_copy(
    update={"segment_turns": 1, "keep_raw_turns": 0, "passes_per_run": 2, "fan_out": 4}
)


async def test_every_branch_ends_at_its_last_turn_whatever_races_the_closing_run(
    client: ContextClient, orchestration: Orchestration, start_worker: StartWorker
) -> None:
    branches = [await client.open_branch(f"conversation-{number}") for number in range(BRANCHES)]
    async with start_worker(), asyncio.timeout(150):
        await asyncio.gather(
            *(_race(orchestration, branch, SEED + n) for n, branch in enumerate(branches))
        )
        for branch in branches:
            await orchestration.result(branch)
    for branch in branches:
        state = await branch.inspect()
        assert state.checkpoint is not None and state.checkpoint.turn_no == state.head_turn == HINTS
        leaves = [node.from_turn for node in await branch.summaries() if node.level == 0]
        assert leaves == list(range(1, HINTS + 1))
        assert {compaction.status for compaction in state.compactions} == {"completed"}
    ended = await _ended(orchestration, branches[0])
    assert WorkflowExecutionStatus.CONTINUED_AS_NEW in ended and ended.total() > 1


async def _race(orchestration: Orchestration, branch: Branch, seed: int) -> None:
    """Each turn is followed by a hint or a request, near the moment the last run closes."""
    chance = random.Random(seed)
    calls = CompactionCalls(orchestration.client, orchestration.task_queue)
    waiting: list[asyncio.Task[object]] = []
    for turn in range(1, HINTS + 1):
        await branch.record_turn(numbered(turn))
        if chance.random() < 0.15:
            waiting.append(asyncio.create_task(orchestration.compact(branch, POLICY)))
        else:
            # Without the time budget of a hint: on a busy machine it may be lost, which is no race.
            await calls.hint(orchestration.request(branch, POLICY), turn, POLICY.debounce)
        await asyncio.sleep(chance.choice((0, 0.05, 0.4, 1.0)) * chance.random())
    await asyncio.gather(*waiting)


async def _ended(
    orchestration: Orchestration, branch: Branch
) -> "Counter[WorkflowExecutionStatus | None]":
    query = f"WorkflowId = '{compaction_workflow_id(branch.branch_uuid)}'"
    async with asyncio.timeout(30):
        while True:  # what is listed is what the server has got round to indexing
            runs = [run.status async for run in orchestration.client.list_workflows(query)]
            if runs and WorkflowExecutionStatus.RUNNING not in runs:
                return Counter(runs)
            await asyncio.sleep(0.1)
