"""Long runs: recorded in stretches, with the task and the newest steps in every prompt."""

import time

import pytest

from durable_context import Budget, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, InvalidTurn
from tests.compacting import compact_all
from tests.prompts import check_prompt, kinds, raw_turns
from tests.turns import call, calling, chat, exchange, numbered

WIDE = Budget(max_tokens=100_000)
POLICY = CompactionPolicy()


async def test_a_long_run_keeps_its_task_and_ends_in_the_newest_results(
    client: ContextClient, pool: Pool
):
    policy = CompactionPolicy(run_raw_tokens=600, segment_turns=3)
    client._policy = policy
    branch = await client.open_branch("c")
    for n in range(1, 4):
        await branch.record_turn(numbered(n))
    task = "Fix the flaky test in tests/test_billing.py and explain why it failed."
    first = [{"role": "user", "content": task}, *exchange("call_0", "row\n" * 60, step=0)]
    await branch.record_turn(first, continues=True)
    for step in range(1, 20):
        stretch = exchange("call_0", f"output of step {step}\n" + "row\n" * 60, step=step)
        await branch.record_turn(stretch, continues=True)
        await compact_all(pool, branch.branch_uuid, policy)
        pending = exchange("call_1", f"pending {step}", step=step)
        prepared = await branch.prepare(None, budget=WIDE, pending=pending)
        assert prepared
        check_prompt(prepared, 4 + step, policy)
        texts = [message["content"] for message in prepared.messages]
        assert texts.count(task) == 1
        assert texts[-1] == f"pending {step}"
        assert any(f"output of step {step}\n" in str(text) for text in texts)
        raw = sum(b.token_count for b in prepared.manifest.blocks if b.kind == "raw")
        assert raw <= policy.run_raw_tokens
    await branch.record_turn([{"role": "assistant", "content": "Fixed."}])
    prepared = await branch.prepare("thanks", budget=WIDE)
    assert prepared
    assert raw_turns(prepared) == [23, 24]
    assert "task" not in kinds(prepared)


async def test_an_assistant_may_speak_first(client: ContextClient):
    branch = await client.open_branch("c")
    greeting = Budget(max_tokens=1000, instructions="Greet the user.")
    assert await branch.prepare(None, budget=greeting)
    await branch.record_turn(numbered(1))
    prepared = await branch.prepare(None, budget=WIDE)
    assert prepared
    assert prepared.messages[-1]["role"] == "assistant"


async def test_wrong_budgets_and_timeouts_are_named(client: ContextClient):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidArgument, match="budget=8000"):
        await branch.prepare("x", budget=8000)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="timeout='5'"):
        await branch.wait_until_compacted(timeout="5")  # type: ignore[arg-type]
    await branch.wait_until_compacted(timeout=0.5)


async def test_pending_holds_complete_exchanges_only(client: ContextClient):
    branch = await client.open_branch("c")
    for pending in ([calling(call("a", "f"))], [{"role": "user", "content": "x"}], "x", 5, None):
        with pytest.raises(InvalidTurn):
            await branch.prepare("hello", budget=WIDE, pending=pending)  # type: ignore[arg-type]


async def test_turns_before_a_run_stand_before_its_task(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("What is 2+2?", "4"))
    await branch.record_turn(chat("Capital of France?", "Paris"))
    first = [{"role": "user", "content": "Now deploy"}, *exchange("a", "deployed")]
    await branch.record_turn(first, continues=True)
    prepared = await branch.prepare(None, budget=WIDE)
    assert prepared
    said = [message["content"] for message in prepared.messages]
    assert said == [
        "What is 2+2?",
        "4",
        "Capital of France?",
        "Paris",
        "Now deploy",
        None,
        "deployed",
    ]


async def test_a_task_that_does_not_come_first_is_kept_too(client: ContextClient, pool: Pool):
    policy = CompactionPolicy(segment_turns=2, run_raw_tokens=100)
    client._policy = policy
    branch = await client.open_branch("c")
    first = [{"role": "assistant", "content": "An alarm."}, {"role": "user", "content": "Mend it"}]
    await branch.record_turn(first, continues=True)
    for step in range(9):
        await branch.record_turn(exchange("a", f"row {step}\n" * 20), continues=True)
        await compact_all(pool, branch.branch_uuid, policy)
        prepared = await branch.prepare(None, budget=WIDE)
        assert prepared
        assert [m["content"] for m in prepared.messages].count("Mend it") == 1


async def test_many_small_raw_stretches_are_reduced_in_linear_time(client: ContextClient):
    branch = await client.open_branch("c")
    task = [{"role": "user", "content": "Go through all rows."}, *exchange("a", "ok")]
    await branch.record_turn(task, continues=True)
    for n in range(250):
        await branch.record_turn(exchange("a", f"ok {n}"), continues=True)

    async def seconds(limit: int) -> float:
        began = time.perf_counter()
        await branch.prepare(None, budget=Budget(max_tokens=limit))
        return time.perf_counter() - began

    assert min([await seconds(3000) for _ in range(3)]) < 0.25
