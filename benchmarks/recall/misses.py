"""Values that our prompts did not hold, and what stood there in place of the message with them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.playing import Moment
from benchmarks.recall.values import Asked, holds, text_of
from benchmarks.report import empty_table
from durable_context import Branch, BudgetExceeded, PreparedContext

_KIND = ("stood as", "seen in", "in a ledger", "argument")


@dataclass(frozen=True)
class Miss:
    """`stood`: what the prompt showed of the turn in which the value was last seen; `ledgered`:
    whether the ledger of an earlier turn has it. `ago` counts messages since then, `turns_ago` user
    messages.
    """

    branch: str
    task: str
    turn: int
    asked: Asked
    seen_by: str
    ago: int
    turns_ago: int
    stood: str
    ledgered: bool
    prompt: Sequence[Mapping[str, Any]]

    def line(self) -> str:
        call = f"{self.asked.call}({self.asked.argument}={self.asked.value!r})"
        return (
            f"{self.branch}, user message {self.turn}, {self.task}: {call}; last seen in a message"
            f" of role {self.seen_by}, {self.ago} messages and {self.turns_ago} user messages"
            f" before, which stood as: {self.stood};{'' if self.ledgered else ' not'} in a ledger"
        )


async def missed(
    branch: Branch,
    moment: Moment,
    turn: int,
    asked: Asked,
    prepared: PreparedContext | BudgetExceeded,
) -> Miss:
    before = moment.before
    last = max(n for n, message in enumerate(before) if holds(text_of(message), asked.value))
    since = before[last + 1 :]
    found = isinstance(prepared, PreparedContext)
    return Miss(
        branch=branch.conversation_id,
        task=moment.task.name,
        turn=turn,
        asked=asked,
        seen_by=before[last]["role"],
        ago=len(since),
        turns_ago=sum(message["role"] == "user" for message in since),
        stood=_standing(moment, last, prepared) if found else "no prompt: budget exceeded",
        ledgered=await _is_in_ledger(branch, moment, asked.value),
        prompt=prepared.messages if found else (),
    )


async def _is_in_ledger(branch: Branch, moment: Moment, value: str) -> bool:
    if not moment.turns:
        return False
    turns = await branch.turns(moment.turns[0], moment.turns[-1])
    return any(holds(entry.value, value) for turn in turns for entry in turn.ledger)


def _standing(moment: Moment, position: int, prepared: PreparedContext) -> str:
    if position >= len(moment.turns):
        return "pending, as a view"
    turn_no = moment.turns[position]
    for block in prepared.manifest.blocks:
        if block.from_turn is None or block.to_turn is None or block.kind == "retrieved":
            continue
        if block.from_turn <= turn_no <= block.to_turn and block.kind != "ledger":
            return "raw, as a view" if block.kind == "raw" else block.kind
    return "nothing"


def show_misses(
    corpus: str, budget: int, misses: Sequence[Miss], count: int, console: Console
) -> None:
    """How many of each kind, and the first so many."""
    table = empty_table(f"{corpus} at {budget:,} tokens: {len(misses)} missed", "", *_KIND)
    for kind, number in Counter(map(_kind, misses)).most_common():
        table.add_row(str(number), *kind)
    console.print(table)
    for number, miss in enumerate(misses[:count], start=1):
        console.print(f"{number}. {miss.line()}", markup=False, soft_wrap=True)


def _kind(miss: Miss) -> tuple[str, ...]:
    ledger = "yes" if miss.ledgered else ""
    return miss.stood, miss.seen_by, ledger, f"{miss.asked.call} {miss.asked.argument}"


def dump(corpus: str, misses: Mapping[int, Sequence[Miss]], count: int, path: Path) -> None:
    """Appends the first misses at each budget, with the prompts that should have held them."""
    with path.open("a", encoding="utf-8") as file:
        for budget, found in misses.items():
            for number, miss in enumerate(found[:count], start=1):
                file.write(f"##### {corpus} at {budget:,} tokens, {number}: {miss.line()}\n")
                for message in miss.prompt:
                    file.write(f"{json.dumps(message, ensure_ascii=False)}\n")
