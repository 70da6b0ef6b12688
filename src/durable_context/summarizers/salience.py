"""Which sentences stand for a text, by weight of their terms and novelty, within a token budget.

Knows no language: stop words help where the language is one of a few, rarity does the rest.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from durable_context.summarizers.stop_words import STOP_WORDS

# Chosen on half of LoCoMo by how many words of the answers survive; flat around these values.
_NOVELTY: Final = 0.8
_CROWDING: Final = 0.9
_FACT_WORTH: Final = 0.3
_SMOOTHING: Final = 8
_LEADS: Final = {True: (3.0, 1.5, 1.0), False: (1.4, 1.2, 1.0)}
_LEADING_BONUS: Final = 0.5
_FOCUSED: Final = (1.0, 4.0, 6.0)
"""By how many of its terms a sentence has in common with what is asked for."""

WORD: Final = re.compile(r"[^\W_]+(?:[-_.'’/@][^\W_]+)*")
_NO_SPACES: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_FACT: Final = re.compile(r"\d|(?<=[a-z,;] )[A-Z][a-zA-Z]|[A-Za-z]+[_/@.-][A-Za-z0-9]")
_TERM_CHARS: Final = 2_000


class Unit(NamedTuple):
    """A sentence that may be chosen. `group`: what it belongs to, a turn or a node.

    The best unit of a group leads it, and one of rank 0 more than one of rank 1; rank 2 never does.
    """

    text: str
    group: int
    tokens: int
    bonus: float = 1.0
    rank: int = 2


def terms(text: str) -> list[str]:
    """Words without stop words, folded; script without spaces gives pairs of characters."""
    found: list[str] = []
    for match in WORD.finditer(text[:_TERM_CHARS]):
        word = match[0].lower()
        if _NO_SPACES.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word not in STOP_WORDS and (len(word) > 2 or word.isdigit()):
            found.append(_fold(word))
    return found


def term_weights(bags: Iterable[Iterable[str]]) -> dict[str, float]:
    """tf-idf over the sentences: what comes back but is not everywhere weighs most."""
    counts: Counter[str] = Counter()
    total = 0
    for bag in bags:
        counts.update(set(bag))
        total += 1
    return {
        term: (1 + math.log(count)) * math.log(1 + total / count) for term, count in counts.items()
    }


def choose(
    units: Sequence[Unit],
    budget: int,
    *,
    acting: bool = False,
    told: Sequence[str] = (),
    focus: str = "",
) -> list[int]:
    """Indices of the units to keep, best first, together within `budget` tokens.

    `acting`: an assistant works for the user, whose wishes then say most. `told` is said anyway.
    `focus`: what shares terms with it goes before the rest.
    """
    race = _Race(units, _LEADS[acting], told, frozenset(terms(focus)))
    left = set(range(len(units)))
    chosen: list[int] = []
    while left := {i for i in left if units[i].tokens <= budget}:
        best = max(left, key=lambda i: (race.value(i), -i))
        left.discard(best)
        chosen.append(best)
        budget -= units[best].tokens
        race.take(best, left)
    return chosen


class _Race:
    """The values of units, which fall as others like them are taken."""

    def __init__(
        self,
        units: Sequence[Unit],
        leads: Sequence[float],
        told: Sequence[str],
        focus: frozenset[str],
    ) -> None:
        self._units = units
        self._focus = focus
        texts = [*(unit.text for unit in units), *told]
        self._bags = [frozenset(terms(text)) for text in texts]
        self._weights = term_weights(self._bags)
        self._sums = [sum(self._weights[term] for term in sorted(bag)) for bag in self._bags]
        self._overlap = [0.0] * len(units)
        self._crowd: Counter[int] = Counter()
        self._values = [self._base(i) for i in range(len(units))]
        for i in _leaders(units, self._values):
            self._values[i] *= leads[units[i].rank]
        for known in range(len(units), len(texts)):
            self._cover(known, range(len(units)))

    def value(self, i: int) -> float:
        crowding = _CROWDING ** self._crowd[self._units[i].group]
        return self._values[i] * (1 - _NOVELTY * self._overlap[i]) * crowding

    def take(self, best: int, left: Iterable[int]) -> None:
        self._crowd[self._units[best].group] += 1
        self._cover(best, left)

    def _cover(self, known: int, left: Iterable[int]) -> None:
        for i in left:
            self._overlap[i] = max(self._overlap[i], self._similarity(i, known))

    def _base(self, i: int) -> float:
        unit = self._units[i]
        if not self._bags[i]:
            return 0.01 * unit.bonus
        facts = min(3, len(_FACT.findall(unit.text)))
        mean = self._sums[i] / (len(self._bags[i]) + _SMOOTHING)
        shared = min(len(self._bags[i] & self._focus), len(_FOCUSED) - 1)
        return unit.bonus * mean * (1 + _FACT_WORTH * facts) * _FOCUSED[shared]

    def _similarity(self, one: int, other: int) -> float:
        """The share of the smaller one's weight that both have."""
        shared = self._bags[one] & self._bags[other]
        if not shared:
            return 0.0 if self._bags[one] or self._bags[other] else 1.0
        smaller = min(self._sums[one], self._sums[other])
        return sum(self._weights[term] for term in sorted(shared)) / smaller


def _leaders(units: Sequence[Unit], values: Sequence[float]) -> Iterable[int]:
    best: dict[tuple[int, int], int] = {}
    for i, unit in enumerate(units):
        key = unit.group, unit.rank
        if unit.bonus >= _LEADING_BONUS and (key not in best or values[i] > values[best[key]]):
            best[key] = i
    return best.values()


def _fold(word: str) -> str:
    """Without plural and possessive endings, so that a term meets itself."""
    word = word.replace("’", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
