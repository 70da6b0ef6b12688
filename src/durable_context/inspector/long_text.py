"""Texts of any length on a page of bounded size: a head, more under a fold, the rest on demand."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

HEAD: Final = 800
"""Characters that are shown of each text ..."""
FOLDED: Final = 12_000
"""... and under a fold, as long as the page has room ..."""
ROOM: Final = 60_000
"""... which is so many characters: an escape takes up to six times as much."""
LEAST: Final = 200
"""Characters of each text where there is no room left."""
PIECE: Final = 40_000
"""Characters of a text that is shown whole, piece by piece."""


class Excerpt(NamedTuple):
    """`folded` goes on where `head` ends; `left` characters of `length` are not there."""

    head: str
    folded: str
    left: int
    length: int


class Piece(NamedTuple):
    """`text[start:end]`; the next piece begins with `end`, where there is one."""

    text: str
    start: int
    end: int
    length: int

    @property
    def is_last(self) -> bool:
        return self.end >= self.length


def excerpts(texts: Iterable[str], room: int = ROOM) -> Iterator[Excerpt]:
    """Heads of all; what room there is goes to the first texts."""
    for text in texts:
        head = text[: _nice_end(text, HEAD if room > 0 else LEAST)]
        rest = len(text) - len(head)
        folded = text[len(head) :] if rest <= min(FOLDED, room) else ""
        room -= len(head) + len(folded)
        yield Excerpt(head, folded, rest - len(folded), len(text))


def piece(text: str, start: int) -> Piece:
    start = min(start, len(text))
    end = min(start + PIECE, len(text))
    return Piece(text[start:end], start, end, len(text))


def _nice_end(text: str, most: int) -> int:
    """Behind a line or a word where there is one near."""
    if len(text) <= most + most // 4:
        return len(text)
    for mark in ("\n", " "):
        found = text.rfind(mark, most // 2, most)
        if found > 0:
            return found + 1
    return most
