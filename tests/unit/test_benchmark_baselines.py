from typing import Any

import pytest

from benchmarks.baselines import (
    PLACEHOLDER,
    Context,
    HalvedWindow,
    LastMessages,
    MaskedResults,
    Replay,
    RollingSummary,
    step_of,
)
from durable_context.tokens import token_counter

COUNTER = token_counter("o200k_base")
RESULT = "The parcel stands in the depot. " * 20


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def exchange(number: int, result: str = RESULT) -> list[dict[str, Any]]:
    call_id = f"call_{number}"
    function = {"name": "track", "arguments": f'{{"parcel": "P-{number}"}}'}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


async def after(context: Context, *steps: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    for step in steps:
        await context.add(step_of(step, COUNTER))
    return context.prompt().messages


def size(*steps: list[dict[str, Any]]) -> int:
    return sum(step_of(step, COUNTER).tokens for step in steps)


async def test_replay_holds_everything() -> None:
    steps = [[said("Hello.")], *(exchange(n) for n in range(5))]

    assert list(await after(Replay(), *steps)) == [m for step in steps for m in step]


async def test_the_last_messages_end_before_the_first_that_does_not_fit() -> None:
    steps = [[said("first")], exchange(1), [said("last")]]
    budget = size(*steps[1:]) + 3

    whole = await after(LastMessages(budget), *steps)
    less = await after(LastMessages(budget - 1), *steps)

    assert list(whole) == [*steps[1], *steps[2]]
    assert list(less) == steps[2]


async def test_older_results_are_masked_and_calls_stay() -> None:
    steps = [exchange(n) for n in range(4)]
    shown = await after(MaskedResults(2 * size(steps[0])), *steps)

    results = [m["content"] for m in shown if m["role"] == "tool"]
    assert results == [PLACEHOLDER, PLACEHOLDER, PLACEHOLDER, RESULT]


async def test_a_halved_window_keeps_its_beginning_until_it_is_full() -> None:
    steps = [[said(f"message {n}")] for n in range(40)]
    room = size(*steps[:10])
    window = HalvedWindow(room + 3)
    beginnings = [(await after(window, step))[0]["content"] for step in steps]

    assert beginnings[:10] == ["message 0"] * 10
    assert beginnings[10:15] == ["message 6"] * 5


async def test_a_rolling_summary_tells_what_left_the_window() -> None:
    asked = [said("Please send parcel P-77 to the harbour office in Ghent.")]
    steps = [asked, *(exchange(n) for n in range(12))]
    shown = await after(RollingSummary(900, COUNTER), *steps)

    assert "P-77" in shown[0]["content"]
    assert shown[-2:] == tuple(steps[-1])


@pytest.mark.parametrize("budget", [60, 200, 400, 1_000, 4_000])
async def test_no_prompt_is_over_its_budget(budget: int) -> None:
    contexts: list[Context] = [
        LastMessages(budget),
        MaskedResults(budget),
        HalvedWindow(budget),
        RollingSummary(budget, COUNTER),
    ]
    for number in range(20):
        for context in contexts:
            await context.add(step_of(exchange(number, RESULT * (number % 5)), COUNTER))
            prompt = context.prompt()
            told = sum(step_of([message], COUNTER).tokens for message in prompt.messages)
            assert prompt.tokens == told + 3 <= budget
