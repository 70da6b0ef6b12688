"""What a prompt shows of the ledger when not all of it fits: the facts worth most to the next step.

A fact is worth what its kind is, more for each mention, less for each turn since the newest one,
and less the more it costs.
"""

from collections.abc import Iterable
from math import log2
from typing import Final, NamedTuple

from durable_context.models import LedgerKind
from durable_context.turns.ledger import fact_value

_AGE: Final = 2.5
_COST: Final = 0.15
"""Both chosen on recorded airline conversations: see `make bench-recall`."""


class Candidate(NamedTuple):
    """A fact. `turn_no` is the turn that named it, `tokens` its line's."""

    turn_no: int
    kind: LedgerKind
    value: str
    tokens: int
    mentions: int


def chosen(
    candidates: Iterable[Candidate], shown: str, newest_turn: int, max_tokens: int
) -> list[Candidate]:
    """The best that fit, of those whose value is not `shown` anyway; oldest turn first.

    A fact that several turns name stands with the newest of them.
    """
    merged: dict[tuple[str, str], Candidate] = {}
    for fact in candidates:
        known = merged.get((fact.kind, fact.value))
        if known is not None:
            fact = max(fact, known, key=lambda one: one.turn_no)._replace(
                mentions=fact.mentions + known.mentions
            )
        merged[fact.kind, fact.value] = fact
    ranked = sorted(merged.values(), key=lambda fact: -_worth(fact, newest_turn))
    kept: list[Candidate] = []
    for fact in ranked:
        if fact.tokens <= max_tokens and fact.value not in shown:
            max_tokens -= fact.tokens
            kept.append(fact)
    return sorted(kept, key=lambda fact: fact.turn_no)


def _worth(fact: Candidate, newest_turn: int) -> float:
    age = max(newest_turn - fact.turn_no, 0)
    return fact_value(fact.kind, fact.mentions) - _AGE * log2(1 + age) - _COST * fact.tokens
