"""What was measured, as tables or as one JSON object, and what our prompts did not hold."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.goals import Goal
from benchmarks.recall.measure import OURS, Miss, Recall, Tally
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
            "goals": [
                {"name": g.name, "figure": g.figure, "limit": g.limit, "met": g.met}
                for g in goals(measured)
            ],
        }
    )


def show(measured: Sequence[Recall], console: Console) -> None:
    for recall in measured:
        console.print(_table(recall))
    console.print(goals_table(list(goals(measured)), decimals=4))


def show_misses(recall: Recall, budget: int, count: int, console: Console) -> None:
    """The misses by argument, and the first so many of them."""
    misses = recall.misses.get(budget, [])
    title = f"{recall.corpus} at {budget:,} tokens: {len(misses)} missed"
    table = empty_table(title, "argument", "last seen in", "over budget", "missed")
    kinds = Counter(
        (f"{m.asked.call} {m.asked.argument}", m.seen_by, "yes" if m.exceeded else "")
        for m in misses
    )
    for kind, number in kinds.most_common():
        table.add_row(*kind, str(number))
    console.print(table)
    for number, miss in enumerate(misses[:count], start=1):
        console.print(_line(number, miss), markup=False, soft_wrap=True)


def dump(measured: Sequence[Recall], count: int, path: Path) -> None:
    """The first misses at each budget with the prompts that should have held them."""
    with path.open("w", encoding="utf-8") as file:
        for recall in measured:
            for budget, misses in recall.misses.items():
                for number, miss in enumerate(misses[:count], start=1):
                    file.write(f"##### {recall.corpus} at {budget:,}: {_line(number, miss)}\n")
                    for message in miss.prompt:
                        file.write(json.dumps(message, ensure_ascii=False, indent=1) + "\n")


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
        f" {recall.calls:,} calls, {recall.seconds:.0f} s; mean and most tokens"
    )
    columns = ("budget", "share", "found", "of", "tokens", "most", "over")
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


def _line(number: int, miss: Miss) -> str:
    over = "; over budget" if miss.exceeded else ""
    return (
        f"{number}. {miss.branch}, user message {miss.turn}, {miss.task}:"
        f" {miss.asked.call}({miss.asked.argument}={miss.asked.value!r}), last seen in a message of"
        f" role {miss.seen_by}, {miss.ago} messages and {miss.turns_ago} user messages before{over}"
    )
