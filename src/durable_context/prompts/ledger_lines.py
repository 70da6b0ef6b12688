"""The ledger's facts as lines of a prompt.

Facts of digested turns stand under their digests, chosen by what stands before them alone, so that
these lines stay as they are while turns are added. Facts that views cut out of raw turns stand in a
block of their own, and those of older turns in the checkpoint.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.state import Fact, TailTurn
from durable_context.tokens import TokenCounter
from durable_context.turns.ledger import ledger_line, ledger_of

Key = tuple[str, str]
SMALLEST_LINE = 5
"""Tokens. Where there is less room no fact is looked for."""


class FactLine(NamedTuple):
    """A line of the ledger. `turn_no` is None for a fact of what is pending."""

    turn_no: int | None
    text: str
    tokens: int


def found_facts(messages: Sequence[Message], counter: TokenCounter) -> tuple[Fact, ...]:
    """The facts of messages that are not recorded yet."""
    return tuple(
        Fact(
            entry.kind,
            entry.value,
            counter.count(ledger_line(entry.kind, entry.value)),
            entry.mentions,
        )
        for entry in ledger_of(messages)
    )


def turn_heading(turn_no: int | None) -> str:
    """What stands above the facts of one turn in a checkpoint."""
    return "" if turn_no is None else f"[turn {turn_no}]\n"


def by_turn(lines: Iterable[FactLine]) -> str:
    """The lines, in the order of their turns, each turn under its heading."""
    return "".join(
        turn_heading(turn_no) + "".join(line.text for line in turn)
        for turn_no, turn in groupby(lines, key=lambda line: line.turn_no)
    )


class Shortened(NamedTuple):
    """Messages of which some are shown as views: their facts, and the text that is shown."""

    turn_no: int | None
    facts: Sequence[Fact]
    text: str


def first_turn_with_facts(turns: Sequence[TailTurn], policy: CompactionPolicy) -> int:
    """From there on all facts of these turns fit `ledger_max_tokens`, however few are repeated.

    A turn may fill its share, of which there are as many as turns in a segment. Where more turns
    wait, the oldest say nothing, and more of them in steps of a segment.
    """
    room, share = policy.ledger_max_tokens, _share(policy)
    for position in range(len(turns) - 1, -1, -1):
        room -= min(share, sum(fact.tokens for fact in turns[position].facts))
        if room < 0:
            begins, step = turns[0].turn_no, policy.segment_turns
            return begins + -(-(turns[position].turn_no + 1 - begins) // step) * step
    return turns[0].turn_no if turns else 0


def digested_facts(
    turns: Iterable[TailTurn], shown: Mapping[int, str], policy: CompactionPolicy
) -> list[FactLine]:
    """Facts that the turns' digests, as they are `shown`, do not say, oldest turn first."""
    known: set[Key] = set()
    lines: list[FactLine] = []
    for turn in turns:
        facts = _unsaid(turn.facts, shown[turn.turn_no], known)
        lines += _within(facts, turn.turn_no, _share(policy))
    return lines


def newest_facts(shortened: Iterable[Shortened], max_tokens: int) -> list[FactLine]:
    """Facts that these, the newest first, do not say, as many as fit: oldest first."""
    known: set[Key] = set()
    lines: list[FactLine] = []
    for one in shortened:
        if max_tokens < SMALLEST_LINE:
            break
        found = _within(_unsaid(one.facts, one.text, known), one.turn_no, max_tokens)
        max_tokens -= sum(line.tokens for line in found)
        lines = found + lines
    return lines


def _share(policy: CompactionPolicy) -> int:
    return policy.ledger_max_tokens // policy.segment_turns


def _unsaid(facts: Iterable[Fact], text: str, known: set[Key]) -> Iterable[Fact]:
    for fact in facts:
        key = (fact.kind, fact.value)
        if key not in known and fact.value not in text:
            known.add(key)
            yield fact


def _within(facts: Iterable[Fact], turn_no: int | None, max_tokens: int) -> list[FactLine]:
    """The most valuable facts, which come first, that fit."""
    lines: list[FactLine] = []
    for fact in facts:
        if fact.tokens <= max_tokens:
            max_tokens -= fact.tokens
            lines.append(FactLine(turn_no, ledger_line(fact.kind, fact.value), fact.tokens))
    return lines
