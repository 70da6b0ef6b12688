"""The figures as tables for people, or as one JSON object for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.compactions import History, Throughput
from benchmarks.goals import Goal, flatness
from benchmarks.measure import Beside


@dataclass
class Results:
    """What was measured; parts that were left out stay empty."""

    prepare: list[Beside] = field(default_factory=list[Beside])
    fork: list[Beside] = field(default_factory=list[Beside])
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
                "fork": [_beside(each) for each in self.fork],
                "record_turn": [_beside(each) for each in self.record],
                "compactions": compactions,
                "histories": [asdict(each) for each in self.histories],
                "goals": [asdict(goal) | {"met": goal.met} for goal in self.goals],
            }
        )

    def show(self, console: Console) -> None:
        if self.prepare:
            title = "prepare, beside a fetch of the same bytes by key"
            console.print(_table(title, "retrieval", self.prepare))
            console.print(_flatness_line(self.prepare))
        if self.fork:
            title = "fork, beside an insert; prepare on a deep fork, beside the root"
            console.print(_table(title, "what", self.fork))
        if self.record:
            title = "record_turn, beside an insert of the same messages as text"
            console.print(_table(title, "turn", self.record))
        if self.throughput is not None:
            console.print(_throughput_line(self.throughput))
            console.print(_histories_table(self.histories))
        console.print(goals_table(self.goals))


def _beside(each: Beside) -> dict[str, Any]:
    return asdict(each) | {"ratio": each.ratio, "python_ms": each.python_ms}


def _flatness(measured: Sequence[Beside]) -> dict[str, float]:
    return {kind: flatness(measured, kind) for kind in dict.fromkeys(m.kind for m in measured)}


def _flatness_line(measured: Sequence[Beside]) -> str:
    turns = sorted({each.turns for each in measured})
    figures = (f"{kind} {ratio:.2f}" for kind, ratio in _flatness(measured).items())
    return f"ours at {turns[-1]:,} turns over ours at {turns[0]:,}: {', '.join(figures)}\n"


def _table(title: str, kind: str, measured: Sequence[Beside]) -> Table:
    columns = ("ours", "p99", "bare", "p99", "ratio", "in SQL", "Python")
    table = empty_table(f"{title}; median and p99 in ms", "turns", kind, "bytes", *columns)
    for each in measured:
        table.add_row(
            f"{each.turns:,}",
            each.kind,
            f"{each.size:,}",
            *(f"{time:.2f}" for time in (each.ours.p50, each.ours.p99)),
            *(f"{time:.2f}" for time in (each.bare.p50, each.bare.p99)),
            f"[bold]{each.ratio:.2f}[/bold]",
            *(f"{time:.2f}" for time in (each.database_ms, each.python_ms)),
        )
    return table


def _throughput_line(throughput: Throughput) -> str:
    return (
        f"compactions: {throughput.ours_per_second:.1f} a second, beside"
        f" {throughput.bare_per_second:.1f} bare workflows: [bold]{throughput.ratio:.2f}[/bold]"
        f" ({throughput.branches} at once, median of {throughput.repetitions})\n"
    )


def _histories_table(histories: Sequence[History]) -> Table:
    table = empty_table("Temporal history of one pass", "started by", "merges", "events", "bytes")
    for each in histories:
        table.add_row(each.started_by, str(each.merges), str(each.events), f"{each.size:,}")
    return table


def goals_table(goals: Sequence[Goal], decimals: int = 2) -> Table:
    table = empty_table("goals", "", "figure", "goal", "")
    for goal in goals:
        sign = "≥" if goal.at_least else "≤"
        verdict = "[green]met[/green]" if goal.met else "[red]missed[/red]"
        table.add_row(goal.name, f"{goal.figure:.{decimals}f}", f"{sign} {goal.limit:g}", verdict)
    return table


def empty_table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left", no_wrap=True)
    return table
