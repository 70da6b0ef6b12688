"""The figures of a long lineage as tables, with the goals they are held to."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.report import empty_table, goals_table
from benchmarks.retrieval.speed import LONG_MESSAGES, NO_RETRIEVAL, QUESTIONS, Speed
from benchmarks.retrieval.speed_bounds import Compared

FLATNESS: Final = 2.5
SLOWEST_MS: Final = 10.0
LOST_POINTS: Final = 1.0


def goals(speed: Speed) -> Iterator[Goal]:
    for kind in (QUESTIONS, LONG_MESSAGES):
        yield Goal(
            f"p50 at {speed.long:,} over {speed.short:,}, {kind}", speed.ratio(kind), FLATNESS
        )
        slowest = speed.times[kind, speed.long].p99
        yield Goal(f"p99 ms at {speed.long:,}, {kind}", slowest, SLOWEST_MS)
    for each in speed.compared:
        if each.exact is not None:
            yield Goal(f"points lost, {each.where}, {each.kind}", each.lost, LOST_POINTS)


def show_speed(speed: Speed, console: Console) -> None:
    times = empty_table("prepare, milliseconds", "", "turns", "p50", "p95", "p99", "calls", "ratio")
    for kind in (NO_RETRIEVAL, QUESTIONS, LONG_MESSAGES):
        for turns in (speed.short, speed.long):
            each = speed.times[kind, turns]
            ratio = f"{speed.ratio(kind):.2f}" if turns == speed.long else ""
            figures = (f"{figure:.2f}" for figure in (each.p50, each.p95, each.p99))
            times.add_row(kind, f"{turns:,}", *figures, f"{each.samples:,}", ratio)
    console.print(times)
    console.print(_compared_table(speed))
    console.print(goals_table(list(goals(speed))))


def _compared_table(speed: Speed) -> Table:
    table = empty_table(
        "best three hits, bounded beside exact", "", "asked", "the same", "exact", "bounded", "lost"
    )
    for each in speed.compared:
        recalls = (_share(each.exact), _share(each.bounded), _lost(each))
        what = f"{each.where}, {each.kind}"
        table.add_row(what, f"{each.asked:,}", f"{each.same:.3f}", *recalls)
    return table


def _share(recall: float | None) -> str:
    return "" if recall is None else f"{recall:.3f}"


def _lost(each: Compared) -> str:
    return "" if each.exact is None else f"{each.lost:+.2f} points"


def speed_as_json(speed: Speed) -> str:
    return json.dumps(
        {
            "turns": [speed.short, speed.long],
            "prepare": [
                {"kind": kind, "turns": turns, **spread._asdict()}
                for (kind, turns), spread in speed.times.items()
            ],
            "compared": [{**each._asdict(), "lost": each.lost} for each in speed.compared],
            "goals": [asdict(goal) | {"met": goal.met} for goal in goals(speed)],
        }
    )
