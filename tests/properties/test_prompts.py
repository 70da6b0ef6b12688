"""Invariants 1, 2, 4, 5 and 6 over any history, budget and order of record, compact, prepare."""

from typing import Any
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context import (
    Branch,
    Budget,
    BudgetExceeded,
    Checkpoint,
    CompactionPolicy,
    ContextClient,
    PreparedContext,
    Summary,
    Turn,
)
from durable_context.database import Pool
from durable_context.errors import InvalidTurn
from tests.compacting import compact_once
from tests.prompts import check_prompt, raw_turns
from tests.properties.histories import budgets, contents, pending, turns
from tests.provider_prompts import check_providers

POLICY = CompactionPolicy(
    segment_turns=3,
    segment_tokens=600,
    fan_out=2,
    raw_result_tokens=150,
    run_raw_tokens=400,
    view_tokens=50,
    digest_tokens=40,
    summary_max_tokens=80,
    checkpoint_max_tokens=500,
    ledger_max_tokens=120,
    retrieved_tokens=150,
)

places = st.one_of(st.none(), st.none(), st.integers(0, 24))
asked = st.tuples(st.one_of(st.none(), contents.filter(bool)), budgets(), pending, places)
steps = st.lists(
    st.one_of(
        turns.map(lambda turn: ("record", turn)),
        turns.map(lambda turn: ("record", turn)),
        st.just(("compact", None)),
        asked.map(lambda one: ("prepare", one)),
    ),
    min_size=1,
    max_size=24,
)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
async def test_every_prompt_is_within_budget_complete_and_valid(
    client: ContextClient, pool: Pool, steps: list[Any]
):
    client._policy = POLICY
    branch = await client.open_branch(uuid4().hex)
    head, last = 0, ("And then?", Budget(max_tokens=1_000_000), [], None)
    recorded: list[Turn] = []
    published: dict[UUID, Summary | Checkpoint] = {}
    for kind, argument in steps:
        if kind == "record":
            turn = await branch.record_turn(
                argument.messages, continues=argument.continues, outcome=argument.outcome
            )
            recorded.append(turn)
            head = turn.turn_no
        elif kind == "compact":
            await compact_once(pool, branch.branch_uuid, POLICY)
            await _check_published(branch, published)
        else:
            last = argument
            await _check(branch, head, *last)
    await _check(branch, head, "And then?", *last[1:])
    stored = await branch.turns()
    assert [turn.messages for turn in stored] == [turn.messages for turn in recorded]
    assert [turn.turn_no for turn in stored] == list(range(1, head + 1))


async def _check_published(branch: Branch, published: dict[UUID, Summary | Checkpoint]) -> None:
    """Invariant 6: what was published stays as it was, and nodes of one level never overlap."""
    now: dict[UUID, Summary | Checkpoint] = {
        **{node.summary_id: node for node in await branch.summaries()},
        **{checkpoint.checkpoint_id: checkpoint for checkpoint in await branch.checkpoints()},
    }
    assert published.items() <= now.items()
    published.update(now)
    ends: dict[int, int] = {}
    for node in now.values():
        if isinstance(node, Summary):
            assert node.from_turn == ends.get(node.level, 0) + 1
            ends[node.level] = node.to_turn


async def _check(
    branch: Branch,
    newest: int,
    content: Any,
    budget: Budget,
    pending: list[dict[str, Any]],
    place: int | None,
) -> None:
    at_turn = None if place is None or place > newest else place
    head = newest if at_turn is None else at_turn
    message = None if content is None else {"role": "user", "content": content}

    async def prepare(limit: int) -> PreparedContext | BudgetExceeded:
        limited = budget.model_copy(update={"max_tokens": limit})
        return await branch.prepare(message, budget=limited, pending=pending, at_turn=at_turn)

    try:
        prepared = await prepare(budget.max_tokens)
    except InvalidTurn as refused:
        assert message is None
        assert "there is nothing to" in str(refused)
        return
    assert await prepare(budget.max_tokens) == prepared
    if isinstance(prepared, BudgetExceeded):
        assert prepared.limit < prepared.smallest <= prepared.required
        enough = await prepare(prepared.smallest)
        assert not isinstance(enough, BudgetExceeded)
        _check_prompt(enough, head)
        short = await prepare(prepared.smallest - 1)
        assert short == prepared.model_copy(update={"limit": prepared.smallest - 1})
        return
    _check_prompt(prepared, head)
    state = await branch.inspect()
    if at_turn is None and state.checkpoint is not None and state.open_run_turn is None:
        assert len(raw_turns(prepared)) <= POLICY.keep_raw_turns


def _check_prompt(prepared: PreparedContext, head: int) -> None:
    check_prompt(prepared, head, POLICY)
    check_providers(prepared)
