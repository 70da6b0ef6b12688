"""Questions whose evidence no retrieved block holds, and what was retrieved instead."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console

from benchmarks.report import empty_table
from benchmarks.retrieval.answers import Answer
from benchmarks.retrieval.evidence import held
from benchmarks.retrieval.floor import Asking
from benchmarks.retrieval.questions import Evidence, Question

_SEED = 1
_SHOWN = 500
"""Characters that are shown of a message, and of what was retrieved for it."""


class Miss(NamedTuple):
    question: Question
    answer: Answer

    def fate(self, evidence: Evidence) -> str:
        """What became of a message."""
        if held((evidence,), self.answer.text).part:
            return "quoted"
        if evidence.turn_no in self.answer.turns:
            return "its turns retrieved, not quoted"
        in_prompt = held((evidence,), self.answer.prompt or "").part
        return "elsewhere in the prompt" if in_prompt else "not retrieved"


def is_missed(question: Question, answer: Answer) -> bool:
    """Whether a message of its evidence is not in the blocks."""
    return held(question.evidence, answer.text).part < 1


def show_misses(misses: Sequence[Miss], count: int, console: Console) -> None:
    """What became of the evidence by category, and so many of the questions, drawn evenly."""
    fates = Counter(
        (miss.question.category, miss.fate(each))
        for miss in misses
        for each in miss.question.evidence
    )
    title = f"evidence of the {len(misses)} questions that miss some, in messages"
    table = empty_table(title, "category", "", "")
    for (category, fate), number in sorted(fates.items()):
        table.add_row(category, fate, str(number))
    console.print(table)
    drawn = sorted(random.Random(_SEED).sample(range(len(misses)), min(count, len(misses))))
    for number in drawn:
        _show(misses[number], console)


def _show(miss: Miss, console: Console) -> None:
    question = miss.question
    lines = [
        f"{question.talk}, {question.category}: {question.text}",
        f"  answer: {question.answer}",
    ]
    lines += [
        f"  evidence, turn {each.turn_no}, {miss.fate(each)}: {each.text}"
        for each in question.evidence
    ]
    lines += [
        f"  retrieved, turns {block.from_turn}-{block.to_turn}, {block.tokens} tokens"
        for block in miss.answer.blocks
    ]
    lines.append(f"  {miss.answer.text}")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    console.print()


def show_answered(askings: Sequence[Asking], count: int, console: Console) -> None:
    """Messages for which nothing should have been retrieved, and what was."""
    for asking in askings:
        drawn = random.Random(_SEED).sample(asking.answered, min(count, len(asking.answered)))
        for message, text in drawn:
            line = f"{asking.kind}: {message[:_SHOWN]!r} got {text[:_SHOWN]}"
            console.print(line, markup=False, soft_wrap=True)
