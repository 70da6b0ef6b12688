"""Quotes parts of texts without their secrets. A secret is known by what stands around it, so that
half of one looks like any other text: more than the part is looked at.
"""

import re
from functools import lru_cache
from typing import Final

from durable_context.redaction import redact

REACH: Final = 2_048
"""Characters before and after a part that are looked at. Private keys are longer, and named."""

LONGEST_WORD: Final = 20_000
"""A token longer than REACH is looked at whole up to this many more characters."""
ANNOUNCED: Final = 64
"""Characters before such a token that say what it is, as in `Bearer`."""
STEP: Final = 256
"""Characters that are looked through at once for where a word begins."""
_SPACE: Final = re.compile(r"\s")
_PRIVATE_KEY: Final = "PRIVATE KEY-----"
_REDACTED: Final = re.compile(r"\[redacted: [a-z ]{1,20}\]")


def quoted(text: str, start: int, end: int) -> str:
    """`text[start:end]` with `[redacted: kind]` in place of secrets, also of those it cuts."""
    first = max(0, _word_start(text, max(0, start - REACH)) - ANNOUNCED)
    last = _word_end(text, end + REACH)
    if _PRIVATE_KEY in text:
        first, last = 0, len(text)
    around = text[first:last]
    safe = _redacted_whole(text) if len(around) == len(text) else redact(around)
    if safe == around:
        return text[start:end]
    return _part(around, safe, start - first, end - first)


@lru_cache(maxsize=8)
def _redacted_whole(text: str) -> str:
    """Of a text with a private key, which is looked at whole for each part that is quoted."""
    return redact(text)


def _word_start(text: str, position: int) -> int:
    """Where the word begins that the position is in: a token may be longer than REACH."""
    first = max(0, position - LONGEST_WORD)
    while position > first:  # backwards in steps: most words are short
        start = max(first, position - STEP)
        spaces = [space.end() for space in _SPACE.finditer(text, start, position)]
        if spaces:
            return spaces[-1]
        position = start
    return first


def _word_end(text: str, position: int) -> int:
    found = _SPACE.search(text, position, position + LONGEST_WORD)
    return found.start() if found else position + LONGEST_WORD


def _part(around: str, safe: str, start: int, end: int) -> str:
    """What became of `around[start:end]`: all of it is taken from `safe`."""
    kept, marks = _REDACTED.split(safe), _REDACTED.findall(safe)
    found: list[str] = []
    position = 0
    for index, piece in enumerate(kept):
        last = index == len(marks)
        begin = len(around) - len(piece) if last else around.find(piece, position)
        if index and position < end and begin > start:
            found.append(marks[index - 1])
        position = begin + len(piece)
        found.append(piece[max(0, start - begin) : max(0, end - begin)])
    return "".join(found)
