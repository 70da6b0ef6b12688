"""A real Prometheus beside a real deployment: every panel has something to show, no rule is
broken.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.observability.live_stack import LiveStack, directory_for_once, live_stack
from tests.observability.traffic import (
    Phases,
    break_a_run,
    compact_what_is_gone,
    run,
    unknown_code,
)
from tests.telemetry.queries import panel_queries, panels, rules

PHASES = Phases(well=15, failing=12, mended=8, hanging=10, after=10)
TALKERS = 4
QUERIES = [
    pytest.param(query.expression, id=f"{panel['title']}-{query.legend}")
    for panel in panels()
    for query in panel_queries(panel)
]


@pytest.fixture(scope="module")
async def stack() -> AsyncIterator[LiveStack]:
    """It has seen about all there is."""
    with directory_for_once() as directory:
        async with live_stack(directory) as stack:
            async with unknown_code(stack.temporal):
                await run(stack, PHASES, TALKERS)
            await compact_what_is_gone(stack.temporal)
            await break_a_run(stack)
            yield stack


async def test_all_three_kinds_of_endpoints_are_scraped(stack: LiveStack) -> None:
    health = await stack.prometheus.targets()
    assert health == {f"durable-context-{part}": "up" for part in ("worker", "temporal", "agent")}


@pytest.mark.parametrize("expression", QUERIES)
async def test_a_panel_has_something_to_show(stack: LiveStack, expression: str) -> None:
    for _ in range(60):
        if _shows(await stack.prometheus.at(expression, time.time())):
            return
        await asyncio.sleep(1)  # until it is scraped
    raise AssertionError("nothing to show")


async def test_prometheus_evaluates_every_rule(stack: LiveStack) -> None:
    evaluated = await stack.prometheus.rules()
    assert {rule["name"] for rule in evaluated} == {rule["alert"] for rule in rules()}
    assert {rule["name"]: rule["health"] for rule in evaluated if rule["health"] != "ok"} == {}


def _shows(series: list[dict[str, Any]]) -> bool:
    return any(not math.isnan(float(one["value"][1])) for one in series)
