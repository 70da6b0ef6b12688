"""Reverts while the compaction workflow runs, and an index that is made up for."""

from durable_context import Branch
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.control.test_revert import Connection
from tests.replacing import replace_node
from tests.workflows.orchestration import Orchestration, StartWorker, record


async def test_a_run_that_planned_before_a_revert_plans_again(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    pool: Pool,
    connection: Connection,
) -> None:
    summarizer = ScriptedSummarizer()
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 6)
    summarizer.gate.clear()
    async with start_worker(summarizer):
        await orchestration.hint(branch)
        await summarizer.arrived.wait()
        await branch.revert(6)
        summarizer.gate.set()
        assert (await orchestration.result(branch)).checkpoint_turn == 18
    nodes = await branch.summaries()
    assert [(node.from_turn, node.to_turn) for node in nodes] == [(1, 6), (7, 12), (13, 18)]
    rejected = await connection.fetch(
        "select from_turn from durable_context.summaries where state = 'rejected'"
    )
    assert [row["from_turn"] for row in rejected] == [7]
    statuses = [(one.from_turn, one.status) for one in await branch.compactions()]
    assert sorted(statuses) == [
        (1, "completed"),
        (7, "completed"),
        (7, "completed"),
        (13, "completed"),
        (13, "failed"),
    ]


async def test_what_was_replaced_is_indexed_where_nothing_else_is_due(
    branch: Branch,
    orchestration: Orchestration,
    start_worker: StartWorker,
    pool: Pool,
    connection: Connection,
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await replace_node(connection, branch, 1, "A cormorant signed for it.")
    assert await branch.search("cormorant") == ()
    async with start_worker(ScriptedSummarizer()):
        await orchestration.hint(branch)
        assert (await orchestration.result(branch)).passes == 0
    [hit] = await branch.search("cormorant")
    assert (hit.from_turn, hit.to_turn) == (1, 6)
