"""What was measured, as tables or as one JSON object."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from benchmarks.goals import Goal
from benchmarks.recall.measure import OURS, Recall, Tally
from benchmarks.report import empty_table, goals_table

GOALS = {2_000: 0.99, 1_000: 0.97}


def goals(measured: Sequence[Recall]) -> Iterator[Goal]:
    for recall in measured:
        for budget, limit in GOALS.items():
            if (tally := recall.tallies.get((OURS, budget))) is not None:
                name = f"{recall.corpus} at {budget:,} tokens"
                yield Goal(name, tally.share, limit, at_least=True)


def as_json(measured: Sequence[Recall], half: str) -> str:
    return json.dumps(
        {
            "half": half,
            "corpora": [_corpus(recall) for recall in measured],
            "goals": [asdict(goal) | {"met": goal.met} for goal in goals(measured)],
        }
    )


def show(measured: Sequence[Recall], console: Console) -> None:
    for recall in measured:
        console.print(_table(recall))
    console.print(goals_table(list(goals(measured)), decimals=4))


def _corpus(recall: Recall) -> dict[str, Any]:
    return {
        "corpus": recall.corpus,
        "branches": recall.branches,
        "turns": recall.turns,
        "calls": recall.calls,
        "seconds": recall.seconds,
        "prompts": [
            {
                "name": tally.name,
                "budget": tally.budget,
                "share": tally.share,
                "found": tally.found,
                "asked": tally.asked,
                "mean_tokens": tally.mean_tokens,
                "max_tokens": max(tally.tokens, default=0),
                "budget_exceeded": tally.exceeded,
            }
            for tally in recall.tallies.values()
        ],
    }


def _table(recall: Recall) -> Any:
    title = (
        f"{recall.corpus}: {recall.branches} branches, {recall.turns:,} user messages,"
        f" {recall.calls:,} calls, {recall.seconds:.0f} s"
    )
    columns = ("budget", "share", "found", "of", "mean tokens", "most", "over")
    table = empty_table(title, "prompt", *columns)
    for tally in _ordered(recall):
        table.add_row(
            tally.name,
            f"{tally.budget:,}" if tally.budget else "",
            f"[bold]{tally.share:.4f}[/bold]",
            f"{tally.found:,}",
            f"{tally.asked:,}",
            f"{tally.mean_tokens:,.0f}",
            f"{max(tally.tokens, default=0):,}",
            str(tally.exceeded or ""),
        )
    return table


def _ordered(recall: Recall) -> list[Tally]:
    """By budget; at each ours first."""
    return sorted(recall.tallies.values(), key=lambda t: (t.budget is None, t.budget or 0))
