"""`python -m tests.observability.picture PATH` draws the dashboard from a live stack: 7 minutes."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from tests.observability.drawing import Series, draw
from tests.observability.live_stack import LiveStack, directory_for_once, live_stack
from tests.observability.prometheus_server import PrometheusServer
from tests.observability.traffic import (
    Phases,
    break_a_run,
    compact_what_is_gone,
    run,
    unknown_code,
)
from tests.telemetry.queries import VARIABLES, Query, dashboard, panel_queries, panels
from worker.termination import Termination

PHASES = Phases(well=130, failing=50, mended=60, hanging=60, after=80)
TALKERS = 4
WARM_UP_SECONDS = 20
"""Not shown: the first calls of a process load what later ones have."""
STEP_SECONDS = 4
RATE = {"$__rate_interval": "30s"}


async def watched(directory: Path) -> dict[int, list[Series]]:
    """What each panel shows of it, by the panel's id."""
    with Termination():
        return await _watched(directory)


async def _watched(directory: Path) -> dict[int, list[Series]]:
    async with live_stack(directory) as stack:
        started = time.time() + WARM_UP_SECONDS
        await _happen(stack)
        return {
            panel["id"]: await _shown(stack.prometheus, panel, started, time.time())
            for panel in panels()
        }


async def _happen(stack: LiveStack) -> None:
    talking = asyncio.create_task(run(stack, PHASES, TALKERS))
    async with unknown_code(stack.temporal):
        await asyncio.sleep(WARM_UP_SECONDS + 20)
    await compact_what_is_gone(stack.temporal)
    await break_a_run(stack)
    await talking


async def _shown(
    prometheus: PrometheusServer, panel: dict[str, Any], start: float, end: float
) -> list[Series]:
    found: list[Series] = []
    for query in panel_queries(panel, VARIABLES | RATE):
        if panel["type"] == "stat":
            answers = await prometheus.at(query.expression, end)
            found += [_series(query, each["metric"], [each["value"]], start) for each in answers]
        else:
            answers = await prometheus.between(query.expression, start, end, STEP_SECONDS)
            found += [_series(query, each["metric"], each["values"], start) for each in answers]
    return found


def _series(query: Query, labels: dict[str, str], points: list[Any], start: float) -> Series:
    legend = query.legend
    for name, value in labels.items():
        legend = legend.replace(f"{{{{{name}}}}}", value)
    return Series(
        legend, [float(when) - start for when, _ in points], [float(what) for _, what in points]
    )


if __name__ == "__main__":
    with directory_for_once() as directory:
        draw(dashboard(), asyncio.run(watched(directory)), Path(sys.argv[1]))
