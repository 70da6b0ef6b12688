"""Where a text holds the terms of a query, which are stems of words as PostgreSQL makes them."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

OCCURRENCES = 3
"""Of each term so many places are looked at."""
_LEAST_STEM = 4


def holds(lowered: str, term: str) -> bool:
    """Whether a text in lower case holds a word that begins with the stem, or a term that is no
    word.
    """
    return _core(term) in lowered and _pattern(term).search(lowered) is not None


def places(text: str, lowered: str, term: str) -> Iterator[int]:
    """Where the first such words begin. `lowered` is the text in lower case."""
    if _core(term) not in lowered:
        return iter(())
    return (found.start() for found in islice(_pattern(term).finditer(text), OCCURRENCES))


def _core(term: str) -> str:
    """What a text with the term holds: `parti` is the stem of `party` and of `parties`."""
    return term[:-1] if len(term) >= _LEAST_STEM and term.endswith("i") else term


@lru_cache(maxsize=4_096)
def _pattern(term: str) -> re.Pattern[str]:
    core = _core(term)
    ending = "[iy]" if core != term else ""
    # A word begins here, a number is whole; in scripts without spaces it may begin anywhere.
    before = r"(?<![^\W\d_])" if term.isascii() and term[:1].isalpha() else ""
    behind = ending
    if term[:1].isdigit():
        before = r"(?<!\d)"
    if term[-1:].isdigit():
        behind = r"(?!\d)"
    return re.compile(f"{before}{re.escape(core)}{behind}", re.IGNORECASE)
