"""The figures as tables for people, or as one JSON object for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.compactions import History, Throughput
from benchmarks.goals import Goal, flatness
from benchmarks.measure import Beside


@dataclass
class Results:
    """What was measured; parts that were left out stay empty."""

    prepare: list[Beside] = field(default_factory=list[Beside])
    record: list[Beside] = field(default_factory=list[Beside])
    throughput: Throughput | None = None
    histories: list[History] = field(default_factory=list[History])
    goals: list[Goal] = field(default_factory=list[Goal])

    def json(self) -> str:
        compactions = asdict(self.throughput) if self.throughput else None
        return json.dumps(
            {
                "prepare": [_beside(each) for each in self.prepare],
                "prepare_flatness": _flatness(self.prepare),
                "record_turn": [_beside(each) for each in self.record],
                "compactions": compactions,
                "histories": [asdict(each) for each in self.histories],
                "goals": [asdict(goal) | {"met": goal.met} for goal in self.goals],
            }
        )

    def show(self, console: Console) -> None:
        if self.prepare:
            console.print(_table("prepare beside a keyed fetch of the same bytes", self.prepare))
            console.print(_flatness_line(self.prepare))
        if self.record:
            console.print(
                _table("record_turn beside a bare insert of the same messages", self.record)
            )
        if self.throughput is not None:
            console.print(_throughput_line(self.throughput))
            console.print(_histories_table(self.histories))
        console.print(_goals_table(self.goals))


def _beside(each: Beside) -> dict[str, Any]:
    return asdict(each) | {"ratio": each.ratio, "python_ms": each.python_ms}


def _flatness(measured: Sequence[Beside]) -> dict[str, float]:
    return {kind: flatness(measured, kind) for kind in dict.fromkeys(m.kind for m in measured)}


def _flatness_line(measured: Sequence[Beside]) -> str:
    turns = sorted({each.turns for each in measured})
    figures = (f"{kind} {ratio:.2f}" for kind, ratio in _flatness(measured).items())
    return f"p50 at {turns[-1]:,} over p50 at {turns[0]:,} turns: {', '.join(figures)}\n"


def _table(title: str, measured: Sequence[Beside]) -> Table:
    columns = ("ours p50", "p99", "bare p50", "p99", "ratio", "in database", "in Python")
    table = _empty(f"{title}, in ms", "turns", "", "bytes", *columns)
    for each in measured:
        figures = (each.ours.p50, each.ours.p99, each.bare.p50, each.bare.p99)
        table.add_row(
            f"{each.turns:,}",
            each.kind,
            f"{each.size:,}",
            *(f"{figure:.2f}" for figure in figures),
            f"[bold]{each.ratio:.2f}[/bold]",
            f"{each.database_ms:.2f}",
            f"{each.python_ms:.2f}",
        )
    return table


def _throughput_line(throughput: Throughput) -> str:
    return (
        f"{throughput.branches} branches at once, median of {throughput.repetitions}:"
        f" {throughput.ours_per_second:.1f} compactions a second beside"
        f" {throughput.bare_per_second:.1f} bare workflows, ratio {throughput.ratio:.2f}\n"
    )


def _histories_table(histories: Sequence[History]) -> Table:
    table = _empty("Temporal history of one pass", "started by", "merges", "events", "bytes")
    for each in histories:
        table.add_row(each.started_by, str(each.merges), str(each.events), f"{each.size:,}")
    return table


def _goals_table(goals: Sequence[Goal]) -> Table:
    table = _empty("goals", "", "figure", "goal", "")
    for goal in goals:
        sign = "≥" if goal.at_least else "≤"
        verdict = "[green]met[/green]" if goal.met else "[red]missed[/red]"
        table.add_row(goal.name, f"{goal.figure:.2f}", f"{sign} {goal.limit:g}", verdict)
    return table


def _empty(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if not position or not column else "right")
    return table
