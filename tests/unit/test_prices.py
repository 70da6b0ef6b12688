"""Prices of calls, by the list that is installed."""

import sys
from decimal import Decimal

import pytest

from durable_context.prices import price_of
from durable_context.summarizers import Attempt

MODEL = "model/openai:gpt-4o-mini/1"
EXTRACTIVE = Attempt(made_by="extractive/1", outcome="ok")


def call(made_by: str, read: int = 1_000_000, written: int = 0, outcome: str = "ok") -> Attempt:
    return Attempt(made_by=made_by, outcome=outcome, input_tokens=read, output_tokens=written)


async def test_calls_cost_what_the_list_says() -> None:
    assert await price_of([call(MODEL)]) == Decimal("0.15")
    assert await price_of([call(MODEL, 2_000_000, 1_000_000)]) == Decimal("0.90")
    assert await price_of([call(MODEL), EXTRACTIVE, call(MODEL)]) == Decimal("0.30")
    assert await price_of([call("model/openai-chat:gpt-4o-mini/2")]) == Decimal("0.15")


async def test_no_model_costs_nothing() -> None:
    assert await price_of([]) == 0
    assert await price_of([EXTRACTIVE]) == 0


async def test_what_was_refused_costs_nothing_and_what_failed_after_an_answer_does() -> None:
    assert await price_of([call("model/nobody:knows/1", 0, outcome="rate limited")]) == 0
    assert await price_of([call(MODEL, outcome="invalid")]) == Decimal("0.15")


@pytest.mark.parametrize(
    "made_by",
    ["model/openai:my-own/1", "model/nobody:gpt-4o-mini/1", "scripted/1", "model/openai/1", ""],
)
async def test_one_price_that_is_not_known_is_none_for_all(made_by: str) -> None:
    assert await price_of([call(MODEL), call(made_by)]) is None


async def test_an_answer_of_unknown_size_has_no_known_price() -> None:
    assert await price_of([call(MODEL, 0)]) is None


async def test_without_the_package_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert await price_of([call(MODEL)]) is None
    assert await price_of([EXTRACTIVE]) == 0
