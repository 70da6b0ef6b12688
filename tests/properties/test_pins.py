"""Any history with pins taken and taken back: the same invariants hold, each pinned turn is there
once, and prompts begin as those before them said.
"""

from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.cache.checks import stable_prefix
from durable_context import Branch, Budget, BudgetExceeded, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.tokens import token_counter
from tests.compacting import compact_once
from tests.prompts import check_prompt, raw_turns
from tests.properties.histories import budgets, pending, turns
from tests.properties.test_prompts import POLICY
from tests.provider_prompts import check_providers
from tests.turns import numbered

COUNTER = token_counter("o200k_base")
steps = st.lists(
    st.one_of(
        turns.map(lambda turn: ("record", turn)),
        turns.map(lambda turn: ("record", turn)),
        st.tuples(st.just("pin"), st.tuples(st.integers(0, 20), st.integers(-2, 6))),
        st.tuples(st.just("pin"), st.tuples(st.integers(0, 20), st.integers(-2, 6))),
        st.tuples(st.just("unpin"), st.integers(0, 20)),
        st.just(("compact", None)),
        st.tuples(st.just("prepare"), st.tuples(budgets(), pending)),
    ),
    min_size=4,
    max_size=24,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
async def test_prompts_with_pins_are_within_budget_complete_and_valid(
    client: ContextClient, pool: Pool, steps: list[Any]
):
    client._policy = POLICY
    branch = await client.open_branch(uuid4().hex)
    head = 0
    for kind, argument in steps:
        if kind == "record":
            turn = await branch.record_turn(
                argument.messages, continues=argument.continues, outcome=argument.outcome
            )
            head = turn.turn_no
        elif kind == "compact":
            await compact_once(pool, branch.branch_uuid, POLICY)
        elif kind == "prepare":
            await _check(branch, head, *argument)
        elif head:
            await _change(branch, head, kind, argument)
    await _check(branch, head, Budget(max_tokens=1_000_000), [])


moves = st.lists(
    st.one_of(
        st.just("record"),
        st.just("record"),
        st.sampled_from(["stretch", "compact"]),
        st.integers(0, 40),
        st.integers(0, 40),
    ),
    min_size=4,
    max_size=30,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(moves=moves)
async def test_a_prompt_begins_as_the_one_before_said(
    client: ContextClient, pool: Pool, moves: list[Any]
):
    client._policy = POLICY
    branch = await client.open_branch(uuid4().hex)
    head, before = 0, None
    for move in moves:
        if move in ("record", "stretch"):
            head += 1
            await branch.record_turn(numbered(head), continues=move == "stretch")
            after = await branch.prepare("And then?", budget=Budget(max_tokens=1_000_000))
            assert after
            assert before is None or stable_prefix(before, COUNTER).begins(after.messages)
            before = after
            continue
        before = None
        if move == "compact":
            await compact_once(pool, branch.branch_uuid, POLICY)
        elif head:
            turn_no = 1 + move % head
            await branch.pin(turn_no, fact=f"SHP-{turn_no:04d}" if move % 3 == 0 else None)


async def _change(branch: Branch, head: int, kind: str, argument: Any) -> None:
    if kind == "unpin":
        pins = await branch.pins()
        if pins:
            gone = pins[argument % len(pins)]
            assert await branch.unpin(gone.turn_no, fact=gone.value)
            assert gone not in await branch.pins()
        return
    (turn,) = await branch.turns(1 + argument[0] % head, 1 + argument[0] % head)
    facts = [entry.value for entry in turn.ledger]
    fact = facts[argument[1] % len(facts)] if facts and argument[1] >= 0 else None
    pin = await branch.pin(turn.turn_no, fact=fact)
    assert (pin.turn_no, pin.value) == (turn.turn_no, fact)
    assert pin in await branch.pins()


async def _check(branch: Branch, head: int, budget: Budget, pending: list[dict[str, Any]]) -> None:
    async def prepare(limit: int) -> PreparedContext | BudgetExceeded:
        limited = budget.model_copy(update={"max_tokens": limit})
        return await branch.prepare("And then?", budget=limited, pending=pending)

    prepared = await prepare(budget.max_tokens)
    assert await prepare(budget.max_tokens) == prepared
    if isinstance(prepared, BudgetExceeded):
        assert prepared.limit < prepared.smallest <= prepared.required
        enough = await prepare(prepared.smallest)
        assert isinstance(enough, PreparedContext)
        await _check_prompt(branch, enough, head)
        short = await prepare(prepared.smallest - 1)
        assert short == prepared.model_copy(update={"limit": prepared.smallest - 1})
        return
    await _check_prompt(branch, prepared, head)


async def _check_prompt(branch: Branch, prepared: PreparedContext, head: int) -> None:
    check_prompt(prepared, head, POLICY)
    check_providers(prepared)
    shown = [b.from_turn or 0 for b in prepared.manifest.blocks if b.kind == "pinned"]
    assert shown == sorted(set(shown))
    text = "".join(m["content"] for m in prepared.messages if 'part="pinned"' in str(m["content"]))
    open_run_turn = (await branch.inspect()).open_run_turn
    for pin in await branch.pins():
        if pin.value is None and pin.turn_no != open_run_turn:
            (turn,) = await branch.turns(pin.turn_no, pin.turn_no)
            is_raw = pin.turn_no in raw_turns(prepared)
            assert text.count(f"\n[turn {pin.turn_no}, {turn.occurred_at:%Y-%m-%d}] ") == (
                not is_raw
            )
