"""Ours beside something else, question by question."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.report import empty_table
from benchmarks.retrieval.answers import Score
from benchmarks.retrieval.intervals import interval
from benchmarks.retrieval.methods import OURS
from benchmarks.traces import MissingData

ALL = "all"
SHARES: Mapping[str, Callable[[Score], float]] = {
    "recall@3": lambda score: score.recall,
    "hit@3": lambda score: score.hit,
    "in blocks": lambda score: score.quoted,
    "in prompt": lambda score: score.present,
}

Scores = Mapping[tuple[str, str], Score]
"""By conversation and question."""
Pairs = Sequence[tuple[Score, Score]]


def earlier(path: Path) -> Scores:
    """Our scores in an earlier run, from what it wrote. Raises MissingData."""
    try:
        return {
            (asked["conversation"], asked["question"]): Score(
                **{name: asked[name] for name in Score._fields}
            )
            for asked in json.loads(path.read_text(encoding="utf-8"))["questions"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MissingData(f"{str(path)!r} is not what --json writes: {error!r}") from error


def pairs_of(now: Scores, before: Scores) -> Pairs:
    """At the questions of both."""
    return [(score, before[asked]) for asked, score in now.items() if asked in before]


def differences_table(other: str, pairs: Pairs) -> Table:
    """The mean difference of each figure with its 95 % confidence interval."""
    table = empty_table(f"{OURS} less {other}", "", "questions", *SHARES)
    for category in (ALL, *sorted({one.category for one, _ in pairs})):
        part = [pair for pair in pairs if category in (ALL, pair[0].category)]
        table.add_row(
            category,
            str(len(part)),
            *(_difference(part, figure) for figure in SHARES.values()),
        )
    return table


def _difference(pairs: Pairs, figure: Callable[[Score], float]) -> str:
    mean, low, high = (
        f"{each:+.3f}".replace("0.", ".", 1)
        for each in interval([figure(one) - figure(other) for one, other in pairs])
    )
    return f"[bold]{mean}[/bold] [dim]{low} {high}[/dim]"
