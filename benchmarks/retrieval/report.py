"""What was measured, as tables or as one JSON object."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.report import empty_table, goals_table
from benchmarks.retrieval.answers import Score, Tally
from benchmarks.retrieval.comparing import ALL, SHARES, Scores, differences_table, pairs_of
from benchmarks.retrieval.intervals import Interval, interval
from benchmarks.retrieval.measure import Measured
from benchmarks.retrieval.methods import BM25, CUT, OURS

RECALL = 0.82
PRESENT = 0.78

_EXPLAINED = (
    "recall@3, hit@3: turns with evidence, all and any, in the turns that the retrieved blocks"
    " cover. in blocks: messages with evidence whose text, or at least a sentence of it, stands in"
    " the text of the blocks; whole: all of their text. in prompt: as in blocks, anywhere in the"
    " prompt. Behind a figure: its 95 % confidence interval, questions resampled."
)


def goals(measured: Measured) -> Iterator[Goal]:
    ours = measured.tallies[OURS]
    yield Goal("recall@3", ours.mean(SHARES["recall@3"]), RECALL, at_least=True)
    yield Goal("evidence in the prompt", ours.mean(SHARES["in prompt"]), PRESENT, at_least=True)
    yield Goal("retrieved tokens, most", ours.percentile(1.0), CUT)


def categories(measured: Measured) -> list[str | None]:
    """None for all, then each."""
    found = dict.fromkeys(score.category for score in measured.tallies[OURS].scores)
    return [None, *sorted(found)]


def as_json(measured: Measured, half: str) -> str:
    return json.dumps(
        {
            "half": half,
            "corpus": measured.corpus,
            "conversations": measured.conversations,
            "turns": measured.turns,
            "seconds": measured.seconds,
            "methods": {
                name: {
                    category or ALL: _figures(tally.of(category))
                    for category in categories(measured)
                }
                for name, tally in measured.tallies.items()
            },
            "questions": [
                {"conversation": talk, "question": question} | score._asdict()
                for (talk, question), score in zip(
                    measured.asked, measured.tallies[OURS].scores, strict=True
                )
            ],
            "floor": [
                {
                    "kind": each.kind,
                    "messages": each.messages,
                    "answered": len(each.answered),
                    "share": each.share,
                    "blocks": each.blocks,
                }
                for each in measured.floor
            ],
            "goals": [asdict(goal) | {"met": goal.met} for goal in goals(measured)],
        }
    )


def _figures(tally: Tally) -> dict[str, Any]:
    shares = {name: _share(tally, figure)._asdict() for name, figure in SHARES.items()}
    return {
        "questions": len(tally.scores),
        "shares": shares,
        "whole_in_blocks": tally.mean(lambda score: score.whole),
        "mean_tokens": tally.mean(lambda score: score.tokens),
        "p95_tokens": tally.percentile(0.95),
        "max_tokens": tally.percentile(1.0),
        "mean_blocks": tally.mean(lambda score: score.blocks),
        "mean_sources": tally.mean(lambda score: score.sources),
        "mean_turns": tally.mean(lambda score: score.turns),
        "without_block": tally.without_block,
    }


def _share(tally: Tally, figure: Callable[[Score], float]) -> Interval:
    return interval([figure(score) for score in tally.scores])


def show(measured: Measured, before: Scores | None, console: Console) -> None:
    """`before`: of an earlier run to compare with."""
    console.print(
        f"{measured.corpus}: {measured.conversations} conversations, {measured.turns:,} turns,"
        f" {len(measured.asked):,} questions, {measured.seconds:.0f} s"
    )
    console.print(_EXPLAINED, soft_wrap=True)
    for category in categories(measured):
        console.print(_shares_table(measured, category))
    ours = measured.tallies[OURS].scores
    if BM25 in measured.tallies:
        theirs = measured.tallies[BM25].scores
        console.print(differences_table(BM25, list(zip(ours, theirs, strict=True))))
    if before is not None:
        now = dict(zip(measured.asked, ours, strict=True))
        console.print(differences_table("the earlier run", pairs_of(now, before)))
    console.print(_sizes_table(measured))
    console.print(_floor_table(measured))
    console.print(goals_table(list(goals(measured)), decimals=3))


def _shares_table(measured: Measured, category: str | None) -> Table:
    asked = len(measured.tallies[OURS].of(category).scores)
    table = empty_table(f"{category or ALL}: {asked} questions", "", *SHARES, "tokens")
    for name, tally in measured.tallies.items():
        part = tally.of(category)
        shares = [_cell(_share(part, figure), name == OURS) for figure in SHARES.values()]
        table.add_row(name, *shares, f"{part.mean(lambda score: score.tokens):,.0f}")
    return table


def _cell(share: Interval, bold: bool) -> str:
    mean, low, high = (f"{figure:.3f}".removeprefix("0") for figure in share)
    return f"{f'[bold]{mean}[/bold]' if bold else mean} [dim]{low}–{high}[/dim]"


def _sizes_table(measured: Measured) -> Table:
    columns = ("tokens", "p95", "most", "blocks", "sources", "turns", "none", "whole")
    table = empty_table(f"{OURS}, what is retrieved for a question", "", *columns)
    for category in categories(measured):
        tally = measured.tallies[OURS].of(category)
        table.add_row(
            category or ALL,
            f"{tally.mean(lambda score: score.tokens):.0f}",
            *(str(tally.percentile(share)) for share in (0.95, 1.0)),
            f"{tally.mean(lambda score: score.blocks):.2f}",
            f"{tally.mean(lambda score: score.sources):.2f}",
            f"{tally.mean(lambda score: score.turns):.1f}",
            str(tally.without_block),
            f"{tally.mean(lambda score: score.whole):.3f}",
        )
    return table


def _floor_table(measured: Measured) -> Table:
    title = "relevance floor: messages for which at least one block is retrieved"
    table = empty_table(title, "", "messages", "answered", "share", "none", "blocks")
    scores = measured.tallies[OURS].scores
    answered = sum(bool(score.blocks) for score in scores)
    rows = [("its own questions", len(scores), answered, sum(score.blocks for score in scores))]
    rows += [(e.kind, e.messages, len(e.answered), e.blocks) for e in measured.floor]
    for kind, messages, got, blocks in rows:
        share = got / messages if messages else 0.0
        mean = blocks / messages if messages else 0.0
        cells = (f"{share:.3f}", str(messages - got), f"{mean:.2f}")
        table.add_row(kind, str(messages), str(got), *cells)
    return table
