"""The benchmark of the processors: it plays whole traces, and sees what is wrong with a prompt."""

from typing import Any

import pytest

from benchmarks import pipeline
from benchmarks.pipeline import is_valid, measure
from benchmarks.traces import Task, Trace
from durable_context.processors import Context, ContextProcessor, ProcessorPipeline
from tests.turns import calling, chat, exchange


def trace(tasks: int) -> Trace:
    told = [
        Task(
            f"task {n}",
            "You are a clerk.",
            (
                *chat(f"Find order {n}.", "I look."),
                {"role": "user", "content": "Do."},
                *exchange(f"c{n}", f"order {n}: " + "row, " * 2_000, "find_order"),
                {"role": "assistant", "content": f"Order {n} is there."},
            ),
        )
        for n in range(tasks)
    ]
    return Trace("made up", tuple(told))


async def test_every_model_call_of_a_trace_is_looked_at():
    found = await measure("made up", [trace(5)], 2_000)
    assert found.prompts == 5 * 3
    assert found.wrong == 0
    assert 0 < found.kept < found.whole


async def test_what_cannot_fit_is_counted_and_is_not_wrong():
    found = await measure("made up", [trace(2)], 5)
    assert found.told_over == found.prompts
    assert found.wrong == 0


async def test_a_processor_that_does_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch):
    class Tearing(ContextProcessor):
        async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
            history = [m for m in ctx.state["history"] if m["role"] not in ("tool", "system")]
            ctx.state["history"][:] = history
            ctx.state["token_budget_trimmed"] = {"fits": True}

    monkeypatch.setattr(
        pipeline,
        "recommended",
        lambda budget: ProcessorPipeline().register(Tearing("pre_llm_call")),
    )
    found = await measure("made up", [trace(2)], 20)
    assert found.invalid and found.over_budget and found.system_lost


def test_calls_without_results_and_results_without_calls_are_invalid():
    complete = [*chat("Look", "Yes")[:1], *exchange("c", "found")]
    assert is_valid(complete)
    assert not is_valid(complete[:2])
    assert not is_valid([complete[0], complete[2]])
    assert not is_valid([complete[0], calling({**complete[1]["tool_calls"][0]}), complete[0]])
