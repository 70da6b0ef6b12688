"""Whether a text holds a message that a question is answered from."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from benchmarks.retrieval.questions import Evidence

SENTENCE_WORDS = 5
"""A sentence of fewer words may stand in a text by chance."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?=\[shared image: )")


class Held(NamedTuple):
    """Shares of the evidence. `whole` is never more than `part`."""

    part: float
    whole: float


def held(evidence: Sequence[Evidence], text: str) -> Held:
    """A message is held whole when all it says stands in the text, its speaker's name apart. One
    quoted in part is held in part when at least one of its sentences of SENTENCE_WORDS words or
    more does. White space is not told apart; `text` must be in one line already.
    """
    whole = [_pieces(each.text)[0] in text for each in evidence]
    part = [
        found or any(sentence in text for sentence in _pieces(each.text)[1])
        for each, found in zip(evidence, whole, strict=True)
    ]
    return Held(sum(part) / len(evidence), sum(whole) / len(evidence))


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[str, tuple[str, ...]]:
    """The message, and those of its sentences that tell it from others."""
    line = in_one_line(text)
    sentences = map(str.strip, _SENTENCE_END.split(line))
    return line, tuple(each for each in sentences if len(each.split()) >= SENTENCE_WORDS)
