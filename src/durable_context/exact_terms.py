"""Terms of what PostgreSQL's parser tears apart or cannot split: identifiers, paths, addresses,
codes and numbers, and writing without spaces.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from durable_context.summarizers.stop_words import STOP_WORDS
from durable_context.text import clean

TERM_CHARACTERS: Final = 100

_NORMALIZED_AT_ONCE: Final = 1_000
"""Normalizing takes quadratic time where combining characters follow each other."""

_UNSPACED: Final = re.compile(
    "["
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff"  # Kana, Bopomofo
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf"  # Thai, Lao
    "\u1780-\u17d3\u17d7\u17dc"  # Khmer
    "\u1000-\u103f\u1050-\u109f\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"  # Myanmar
    "]+"
)
_URL: Final = re.compile(r"https?://[^\s\"'“”‘’«»‹›`()\[\]{}<>|]{1,2000}", re.IGNORECASE)
_SEPARATORS: Final = str.maketrans(dict.fromkeys("\"'“”„‘’«»‹›`()[]{}<>|;?!=&*、。，", " "))
_AROUND: Final = ".,:^~%$€£¥₹₽"
_BEFORE: Final = f"{_AROUND}+-"
_BEHIND: Final = f"{_AROUND}-/\\"
_MARKED: Final = re.compile(
    r"[\d_/\\@#]|::|\+\+$|\w\.\w|[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ]|[A-Z]{2}[a-z]{2}|[A-Z]{2}-[A-Z]{2}"
)
_PLAIN: Final = re.compile(
    r"\d?|\d{1,3}(?:st|nd|rd|th)|\W*|_+|(?![^d]\.[ch]$)(?:[^\W\d_]\.)+[^\W\d_]", re.IGNORECASE
)
"""Marked like an exact term, and none: `7`, `8th`, `e.g`, but not `a.c`."""
_NUMBER: Final = re.compile(
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3}){1,2}(?:,\d+)?|\d+,\d{1,2}"
)
_PAIR: Final = re.compile(r"\d+,\d{1,2}")
_NUMBERED: Final = re.compile(r"(?:[^\W\d_]{1,10}-|#)(\d{2,})")
_VERSION: Final = re.compile(r"[vV](\d[\w.+-]+)")
_OUTER: Final = re.compile(r"[/\\@#:?&=]+")


class _PlainMarks(dict[int, int | str | None]):
    """For `str.translate`: marks beyond ASCII as spaces, hyphens and apostrophes as ASCII has them,
    nothing for characters that only steer how others look. In some locales PostgreSQL takes any
    character beyond ASCII for a letter.
    """

    def __missing__(self, code: int) -> int | str | None:
        plain = self._plain(code)
        if code < _KEPT_BELOW:
            self[code] = plain
        return plain

    @staticmethod
    def _plain(code: int) -> int | str | None:
        category = unicodedata.category(chr(code))
        if category == "Cf" and code not in _JOINERS:
            return None
        return " " if code > _LAST_ASCII and category[0] in "PSZ" else code


_LAST_ASCII: Final = 0x7F
_KEPT_BELOW: Final = 0x3100
_JOINERS: Final = frozenset({0x200C, 0x200D})
_PLAIN_MARKS: Final = _PlainMarks(
    {ord("’"): "'", ord("ʼ"): "'", 0x2010: "-", 0x2011: "-", 0x2012: "-", 0x2212: "-"}
)


def normalized(text: str) -> str:
    """Text as terms are made of it: storable, in NFKC, no marks but those of ASCII."""
    text = clean(text)
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFKC", text):
        pieces = range(0, len(text), _NORMALIZED_AT_ONCE)
        text = "".join(
            unicodedata.normalize("NFKC", text[start : start + _NORMALIZED_AT_ONCE])
            for start in pieces
        )
    return text.translate(_PLAIN_MARKS)


def folded(text: str) -> str:
    """Text for PostgreSQL, which in some locales knows no capitals beyond ASCII."""
    return text if text.isascii() else text.lower()


def without_unspaced(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without what is written in scripts that put no spaces between words, and the runs of
    characters that were.
    """
    if text.isascii():
        return text, ()
    runs = tuple(_UNSPACED.findall(text))
    return (_UNSPACED.sub(" ", text), runs) if runs else (text, ())


def pairs(runs: Iterable[str]) -> Iterator[str]:
    """Each two neighbouring characters of each run; a run of one as it is."""
    for run in runs:
        if len(run) == 1:
            yield run
        else:
            yield from map("".join, pairwise(run))


def exact_terms(text: str) -> Iterator[str]:
    """Terms of the identifiers, paths, addresses, codes and numbers in normalized text."""
    if "://" in text:
        for url in _URL.findall(text):
            yield from _parts(url.rstrip(f"{_BEHIND}?!;"))
        text = _URL.sub(" ", text)
    for token in text.translate(_SEPARATORS).split():
        token = token.rstrip(_BEHIND)
        if token.isalpha() and token[1:].islower():
            continue
        if token.startswith("##"):
            token = token.strip("#")
        if "," in token:
            yield from _numeric(token.lstrip(_BEFORE))
        else:
            yield from _parts(token.lstrip(_BEFORE))


def _numeric(token: str) -> Iterator[str]:
    """A number with a comma, or what stands between commas; both where it may be either."""
    is_number = _NUMBER.fullmatch(token) is not None
    if is_number:
        yield _term(token)
        yield _term(_canonical(token))
    if not is_number or _PAIR.fullmatch(token):
        for part in token.split(","):
            yield from _parts(_stripped(part))


def _canonical(number: str) -> str:
    """`1250.50` of `1,250.50` and `1.250,50`."""
    comma, dot = number.rfind(","), number.rfind(".")
    decimal_comma = comma > dot and len(number) - comma - 1 != 3
    if decimal_comma or (comma < 0 <= dot) or 0 <= dot < comma:
        return number.replace(".", "").replace(",", ".")
    return number.replace(",", "")


def _parts(token: str) -> Iterator[str]:
    """Terms of a token, and of the parts of it that would be exact on their own."""
    if not _is_exact(token):
        return
    yield _term(token)
    if token.isdigit():
        return
    if (version := _VERSION.fullmatch(token)) is not None:
        yield _term(version[1])
    elif (numbered := _NUMBERED.fullmatch(token)) is not None:
        yield _term(numbered[1])
    elif _NUMBER.fullmatch(token):
        yield _term(_canonical(token))
    else:
        yield from _pieces(token)


def _pieces(token: str) -> Iterator[str]:
    outer = _OUTER.split(token)
    for part in map(_stripped, outer):
        if len(outer) > 1 and _is_exact(part):
            yield _term(part)
        if "." in part:
            for inner in part.split("."):
                if not inner[:1].isdigit() and _is_exact(inner):
                    yield _term(inner)


def _is_exact(token: str) -> bool:
    if _MARKED.search(token) is None or _PLAIN.fullmatch(token):
        return False
    sides = token.split("/", 2)
    return len(sides) != 2 or not all(side.lower() in STOP_WORDS for side in sides)


def _stripped(token: str) -> str:
    return token.lstrip(_BEFORE).rstrip(_BEHIND)


def _term(token: str) -> str:
    return f"={token.casefold()}"[:TERM_CHARACTERS]
