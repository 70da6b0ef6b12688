"""A coding agent at work on one request, made up: calls with results of all sizes, as they come."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from durable_context import Budget, CompactionPolicy, PreparedContext
from durable_context.tokens import token_counter
from tests.prompts import check_prompt, raw_turns
from tests.provider_prompts import check_providers
from tests.turns import exchange

TASK = (
    "The nightly build fails in tests/billing/test_invoice.py::test_rounding_of_totals. Find out"
    " why, mend it without changing the public functions, and keep a list of the files you touched."
)
INSTRUCTIONS = "You are a careful engineer. Look before you change anything."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} in the checkout",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("read_file", "run_tests", "query")
]
BUDGET = Budget(max_tokens=8_000, instructions=INSTRUCTIONS, tools=TOOLS)
COUNTER = token_counter("o200k_base")
WHOLE_TOKENS = 4_000
"""A pending result up to this size, half of the budget, is shown whole."""
SMALLEST, LARGEST = 200, 100_000
"""Bytes of a result."""


def steps(count: int, seed: int = 11) -> Iterator[list[Any]]:
    """Exchanges with results from 200 bytes to 100 KB: source, test logs and JSON in turn."""
    chosen = random.Random(seed)
    for step in range(count):
        size = round(SMALLEST * (LARGEST / SMALLEST) ** chosen.random())
        if step % 50 == 49:
            size = LARGEST
        name, make = (("read_file", _source), ("run_tests", _log), ("query", _rows))[step % 3]
        path = f"src/billing/module_{chosen.randrange(40)}.py"
        yield exchange(f"call_{step}", make(chosen, step, size), name, path=path, step=step)


def _source(chosen: random.Random, step: int, size: int) -> str:
    return _lines(
        size,
        lambda n: f"    total_{n} = rounded(net_{chosen.randrange(900)} * RATE_{step}, {n % 5})",
    )


def _log(chosen: random.Random, step: int, size: int) -> str:
    return _lines(
        size,
        lambda n: (
            f"tests/billing/test_{chosen.randrange(90)}.py::test_case_{n} "
            f"{chosen.choice(['PASSED', 'PASSED', 'FAILED'])} [{step}:{n}]"
        ),
    )


def _rows(chosen: random.Random, step: int, size: int) -> str:
    rows: list[dict[str, Any]] = []
    length = 2
    while length < size - 70:
        row = {"invoice": f"INV-{step:03d}-{len(rows):04d}", "net": chosen.randrange(10_000) / 100}
        rows.append(row)
        length += len(json.dumps(row)) + 2
    return json.dumps(rows)


def _lines(size: int, line: Callable[[int], str]) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(line(len(lines)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)[:size]


def check_call(
    prepared: PreparedContext, pending: Sequence[dict[str, Any]], head_turn: int
) -> None:
    """What holds at each model call of the run: its task, and its newest steps as they were."""
    check_prompt(prepared, head_turn, CompactionPolicy())
    check_providers(prepared)
    contents = [message["content"] for message in prepared.messages]
    assert contents.count(TASK) == 1
    raw = raw_turns(prepared)
    assert raw == list(range(head_turn - len(raw) + 1, head_turn + 1))
    tokens = 0
    if pending:
        asked, answered = prepared.messages[-2:]
        assert asked["tool_calls"] == pending[0]["tool_calls"]
        assert answered["tool_call_id"] == pending[1]["tool_call_id"]
        tokens = COUNTER.count(answered["content"])
        if COUNTER.fits(pending[1]["content"], WHOLE_TOKENS):
            assert answered["content"] == pending[1]["content"]
    assert raw or tokens > BUDGET.limit / 4, "steps before the newest give way to that alone"
