"""Tokens that agents used: steps, totals, and counts that are refused."""

from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

from durable_context.errors import ContextError
from durable_context.processors.token_tracker import TokenStep, TokenTracker, TokenUsageSummary


def test_steps_are_numbered_from_0_for_each_agent():
    tracker = TokenTracker()
    first = tracker.add_step("a", prompt_tokens=100, output_tokens=50)
    other = tracker.add_step("b", prompt_tokens=200, output_tokens=80)
    second = tracker.add_step("a", prompt_tokens=120, output_tokens=60)
    assert first == TokenStep("a", 0, 100, 50) and first.total_tokens == 150
    assert (other.step, second.step) == (0, 1)
    assert tracker.steps == [first, other, second] and len(tracker) == 3
    assert tracker.get_trajectory("a") == [first, second]


def test_totals_add_up_for_an_agent_and_for_all():
    tracker = TokenTracker()
    tracker.add_step("b", prompt_tokens=100, output_tokens=50)
    tracker.add_step("a", prompt_tokens=200, output_tokens=80)
    tracker.add_step("b", prompt_tokens=120, output_tokens=60)
    assert tracker.agent_usage("b") == TokenUsageSummary(220, 110, 330, 2)
    assert tracker.total_usage() == TokenUsageSummary(
        prompt_tokens=420, output_tokens=190, total_tokens=610, step_count=3
    )
    assert tracker.agent_ids == ["b", "a"]


def test_an_unknown_agent_used_nothing():
    tracker = TokenTracker()
    assert tracker.get_trajectory("a") == []
    assert tracker.agent_usage("a") == tracker.total_usage() == TokenUsageSummary(0, 0, 0, 0)
    assert tracker.agent_ids == tracker.steps == []


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (SimpleNamespace(input_tokens=3, output_tokens=4, total_tokens=9), (3, 4)),
        ({"input_tokens": 3, "output_tokens": 4}, (3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, (3, 4)),
        ({"input_tokens": 0, "prompt_tokens": 9, "output_tokens": 4}, (0, 4)),
        (SimpleNamespace(input_tokens=3), (3, 0)),
        (SimpleNamespace(input_tokens=None, output_tokens=2), (0, 2)),
        (SimpleNamespace(), (0, 0)),
    ],
)
def test_a_usage_object_is_a_step(usage: Any, expected: tuple[int, int]):
    step = TokenTracker().add_usage("a", usage)
    assert (step.prompt_tokens, step.output_tokens) == expected


@pytest.mark.parametrize("count", [-1, True, 1.5, "10", None])
@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens"])
def test_nonsense_counts_are_refused_and_leave_no_step(count: Any, name: str):
    tracker = TokenTracker()
    with pytest.raises(ContextError, match=f"{name}={count!r}.* from 0"):
        tracker.add_step("a", **({"prompt_tokens": 1, "output_tokens": 1} | {name: count}))
    with pytest.raises(ContextError):
        tracker.add_usage("a", {"input_tokens": -1})
    assert len(tracker) == 0 and tracker.agent_ids == []


def test_what_a_tracker_returns_cannot_change_it():
    tracker = TokenTracker()
    step = tracker.add_step("a", prompt_tokens=1, output_tokens=1)
    tracker.steps.clear()
    tracker.agent_ids.clear()
    tracker.get_trajectory("a").clear()
    for frozen in (step, tracker.total_usage()):
        with pytest.raises(AttributeError):
            frozen.prompt_tokens = 9  # type: ignore[misc]
    assert tracker.steps == tracker.get_trajectory("a") == [step]


def test_its_repr_counts_agents_and_steps():
    tracker = TokenTracker()
    assert repr(tracker) == "TokenTracker(agents=0, steps=0)" and tracker
    tracker.add_step("a", prompt_tokens=1, output_tokens=1)
    tracker.add_step("b", prompt_tokens=1, output_tokens=1)
    assert repr(tracker) == "TokenTracker(agents=2, steps=2)"


def test_a_step_costs_the_same_however_many_there_are():
    def seconds(steps: int) -> float:
        tracker, began = TokenTracker(), perf_counter()
        for _ in range(steps):
            tracker.add_step("a", prompt_tokens=1, output_tokens=1)
            tracker.total_usage()
        return perf_counter() - began

    few = min(seconds(500) for _ in range(5))
    assert seconds(10_000) < 20 * few * 8  # in proportion, with room for a busy machine
