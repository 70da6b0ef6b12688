"""What gives way when a prompt is over budget, and what is said when nothing fits."""

from threading import current_thread, main_thread
from typing import Any

import pytest

from durable_context import Budget, BudgetExceeded, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.prompts import preparing, state
from durable_context.tokens import token_counter
from tests.compacting import compact_once
from tests.prompts import check_prompt
from tests.turns import chat, exchange, numbered

WIDE = Budget(max_tokens=100_000)
POLICY = CompactionPolicy()


async def test_reductions_happen_in_the_documented_order(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    for n in range(1, 40):
        await branch.record_turn(
            [
                {"role": "user", "content": f"Check shipment SHP-{n:04d} and order {n}."},
                *exchange("a", f"log line {n}\n" * 300, shipment=f"SHP-{n:04d}"),
                {"role": "assistant", "content": f"Shipment SHP-{n:04d} is late by {n} hours."},
            ]
        )
    for _ in range(3):
        await compact_once(pool, branch.branch_uuid, POLICY)
    order = [
        "digests_joined",
        "view",
        "raw_to_digest",
        "retrieved_dropped",
        "digests_joined",
        "node_to_headline",
        "headline_to_words",
        "ledger_cut",
        "raw_to_digest",
        "digests_joined",
        "headlines_joined",
    ]
    full = await branch.prepare("What of SHP-0002?", budget=WIDE)
    assert full
    seen: set[str] = set()
    smallest = full.token_count
    for limit in range(full.token_count, 0, -7):
        prepared = await branch.prepare("What of SHP-0002?", budget=Budget(max_tokens=limit))
        if isinstance(prepared, BudgetExceeded):
            break
        check_prompt(prepared, 39, POLICY)
        stages = [reduction.kind for reduction in prepared.manifest.reductions]
        position = 0
        for stage in stages:
            position = order.index(stage, position)
        seen.update(stages)
        assert prepared.token_count <= smallest or prepared.token_count <= limit
    assert seen == set(order)


async def test_a_pasted_document_in_the_turn_before_does_not_block_the_next_call(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    document = "\n".join(f"Clause {n}: the carrier pays for delay number {n}." for n in range(3000))
    await branch.record_turn(chat(document, "I have read all clauses."))
    prepared = await branch.prepare("Which clause is last?", budget=Budget(max_tokens=1500))
    assert prepared
    check_prompt(prepared, 1, POLICY)
    assert "view" in [reduction.kind for reduction in prepared.manifest.reductions]


async def test_what_cannot_fit_is_said_with_the_smallest_size_that_would(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    budget = Budget(max_tokens=60, instructions="word " * 200)
    refused = await branch.prepare("hello", budget=budget)
    assert isinstance(refused, BudgetExceeded)
    assert not refused
    assert refused == await branch.prepare("hello", budget=budget)
    assert refused.limit == 60
    assert {block.kind for block in refused.blocks} >= {"instructions", "user"}
    enough = Budget(max_tokens=refused.smallest, instructions="word " * 200)
    assert await branch.prepare("hello", budget=enough)


async def test_instructions_tools_and_output_count(client: ContextClient):
    branch = await client.open_branch("c")
    tool = {
        "type": "function",
        "function": {"name": "get", "description": "Get it", "parameters": {"type": "object"}},
    }
    bare = await branch.prepare("hello", budget=WIDE)
    full = await branch.prepare(
        "hello", budget=Budget(max_tokens=500, instructions="Be brief.", tools=(tool,))
    )
    assert bare
    assert full
    counter = token_counter("o200k_base")
    assert full.token_count >= bare.token_count + counter.count("Be brief.") + 20
    assert full.messages[0] == {"role": "system", "content": "Be brief."}
    held = Budget(max_tokens=500, reserve_output=500)
    assert isinstance(await branch.prepare("hello", budget=held), BudgetExceeded)


async def test_the_smallest_prompt_has_no_facts_of_the_newest_turn(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("hello there, how are you", "fine"))
    orders = " ".join(f"order ORD-{n:05d} /srv/app{n}/file{n}.py" for n in range(20))
    await branch.record_turn(chat(f"please look at {orders}", "ok"))
    refused = await branch.prepare("go", budget=Budget(max_tokens=1))
    assert isinstance(refused, BudgetExceeded)
    digests = sum(token_counter("o200k_base").count(t.digest) for t in await branch.turns())
    assert refused.smallest < digests + 80


async def test_a_branch_whose_compaction_is_far_behind_uses_its_budget(client: ContextClient):
    """Digests are joined as far as needed, not all of them at once."""
    branch = await client.open_branch("c")
    for n in range(1, 120):
        await branch.record_turn(numbered(n))
    full = await branch.prepare("And now?", budget=WIDE)
    assert full
    for share in (0.98, 0.8, 0.6, 0.4):
        limit = int(share * full.token_count)
        prepared = await branch.prepare("And now?", budget=Budget(max_tokens=limit))
        assert prepared
        check_prompt(prepared, 119, POLICY)
        assert prepared.token_count > 0.9 * limit


async def test_a_long_tail_is_made_a_prompt_of_beside_the_event_loop(
    client: ContextClient, monkeypatch: pytest.MonkeyPatch
):
    branch = await client.open_branch("c")
    for n in range(1, 8):
        await branch.record_turn(numbered(n))
    short = await branch.prepare("And now?", budget=WIDE)
    threads: list[bool] = []

    def seen(step: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            threads.append(current_thread() is not main_thread())
            return step(*args, **kwargs)

        return run

    for module, step in ((state, "_state"), (preparing, "assemble")):
        monkeypatch.setattr(module, "THREAD_TURNS", 6)
        monkeypatch.setattr(module, step, seen(getattr(module, step)))
    long = await branch.prepare("And now?", budget=WIDE)
    assert short and long and long.messages == short.messages
    assert threads == [True, True]
