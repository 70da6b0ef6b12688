"""A coding agent with 200 tool calls on one request, recorded in stretches, on 8,000 tokens."""

from typing import Any

import pytest

from durable_context import ContextClient
from durable_context.database import Pool
from tests.coding_run import BUDGET, LARGEST, SMALLEST, TASK, check_call, steps
from tests.compacting import compact_all
from tests.prompts import kinds

CALLS = 200


def test_the_run_has_results_of_all_sizes():
    sizes = [len(step[1]["content"]) for step in steps(CALLS)]
    assert min(sizes) < 2 * SMALLEST and max(sizes) >= LARGEST * 0.98
    assert sum(size > 50_000 for size in sizes) >= 10
    assert sum(size < 2_000 for size in sizes) >= 50


@pytest.mark.parametrize("keeps_up", [True, False], ids=["keeping up", "no worker"])
async def test_every_call_of_a_long_run_is_within_its_budget(
    client: ContextClient, pool: Pool, keeps_up: bool
):
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": TASK}], continues=True)
    answered: list[Any] = []
    head = 1
    for step in steps(CALLS):
        prepared = await branch.prepare(None, budget=BUDGET, pending=answered)
        assert prepared
        check_call(prepared, answered, head)
        if answered:
            head = (await branch.record_turn(answered, continues=True)).turn_no
            if keeps_up:
                await compact_all(pool, branch.branch_uuid)
        answered = step
    assert head == CALLS
    last = await branch.prepare(None, budget=BUDGET, pending=answered)
    assert last
    check_call(last, answered, head)
    assert ("checkpoint" in kinds(last)) == keeps_up
    await branch.record_turn([*answered, {"role": "assistant", "content": "Mended."}])
    done = await branch.prepare("Which files?", budget=BUDGET)
    assert done and "task" not in kinds(done)
