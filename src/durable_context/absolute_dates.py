"""The absolute dates a text names, as terms it is found by.

A day has a term of its own and those of its month, its year and the month of any year.
"""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import date
from typing import Final, NamedTuple

_MONTH_ROWS: Final = (
    "january january januar janvier enero gennaio janeiro januari jan janv ene",
    "february februar février fevrier febrero febbraio fevereiro februari feb févr fev",
    "march märz maerz mars marzo março marco maart mar mär mrz",
    "april avril abril aprile apr avr abr",
    "may mai mayo maggio maio mei",
    "june juni juin junio giugno junho jun",
    "july juli juillet julio luglio julho jul juil",
    "august août aout agosto augustus aug ago",
    "september septembre septiembre settembre setembro sept sep",
    "october oktober octobre octubre ottobre outubro oct okt",
    "november novembre noviembre novembro nov",
    "december dezember décembre decembre diciembre dicembre dezembro dec déc dez dic",
)
_MONTHS: Final = {
    name: number for number, row in enumerate(_MONTH_ROWS, start=1) for name in row.split()
}
_SHORT: Final = 4
"""Abbreviations are no longer, and are said of other things too."""
_SHORT_MONTHS: Final = frozenset({"june", "july", "juni", "juin", "juli", "mai"})
_ALSO_WORDS: Final = frozenset({"may", "march", "mars", "mayo", "august"})
_LEADING_WORDS: Final = """
in since last of until till before after by during this next early late mid through from every
im seit letzten bis vor nach ab anfang ende mitte en depuis fin début de desde hasta a nel di em até
sinds begin
"""
_LEADING: Final = frozenset(_LEADING_WORDS.split())
_OF: Final = frozenset({"of", "de", "del"})
_AROUND: Final = ".,:;!?()[]{}<>\"'"

_YEAR: Final = re.compile(r"(?:1[6-9]|2[01])\d\d(?!\d)(?<!\d\d\d\d\d)")
_DAY: Final = re.compile(r"(\d{1,2})(?:[-–]\d{1,2})?(?:st|nd|rd|th|er|o)?")
_YEAR_FIRST: Final = re.compile(
    r"-(\d{1,2})(?:-(\d{1,2}))?(?![\d-])|([/.])(\d{1,2})\3(\d{1,2})(?!\d)"
)
_DAY_FIRST: Final = re.compile(r"(?<![\d.])(\d{1,2})([./-])(\d{1,2})\2$")
_EAST_ASIAN: Final = re.compile(r"\s?[年년]\s?(\d{1,2})\s?[月월](?:\s?(\d{1,2})\s?[日号일])?")
_WEEK_BEFORE: Final = ("(week of ", "(weekend of ")


class _Said(NamedTuple):
    """A month by its name, with the day and the year that stand beside it."""

    month: int
    day: str | None
    year: str | None
    is_certain: bool


def date_terms(day: date) -> tuple[str, str, str, str]:
    """What everything said on this day is found by: the day, its month, its year, and the month of
    any year.
    """
    return (f"={day}", f"={day:%Y-%m}", f"={day:%Y}", f"=--{day:%m}")


def named_dates(text: str) -> tuple[str, ...]:
    """Terms of the days and of the months with a year that a text names, in NFKC.

    `(week of 2023-05-01)`, which stands behind a resolved "last week", is no finer than its month.
    """
    if _YEAR.search(text) is None:
        return ()
    terms = dict[str, None]()
    for found in (*_by_name(text), *_by_number(text)):
        terms.update(dict.fromkeys(found))
    return tuple(terms)


def asked_months(text: str) -> tuple[str, ...]:
    """Terms of the months a question names without a year, as in "what did we do in May?"."""
    said = (one for one in _said(text) if one.year is None and one.is_certain)
    return tuple(dict.fromkeys(f"=--{one.month:02}" for one in said))


def day_numbers(text: str) -> frozenset[str]:
    """Terms of the days that stand beside a month: on their own they say nothing."""
    return frozenset(f"={one.day}" for one in _said(text) if one.day)


def without_dates(text: str, terms: Iterable[str]) -> str:
    """The text without the words that these terms of it stand for. The name of a month stays where
    no year is with it: it may be said so.
    """
    named = [term.removeprefix("=").split("-") for term in terms if not term.startswith("=-")]
    years = {parts[0] for parts in named}
    months = {int(parts[1]) for parts in named if len(parts) > 1}
    days = {int(parts[2]) for parts in named if len(parts) > 2}
    return " ".join(
        word for word in text.split() if not _is_of_date(word.strip(_AROUND), years, months, days)
    )


def _is_of_date(word: str, years: Set[str], months: Set[int], days: Set[int]) -> bool:
    if _MONTHS.get(word.casefold()) in months or word in years:
        return True
    day = _DAY.fullmatch(word)
    return (day is not None and int(day[1]) in days) or bool(named_dates(word))


def _by_name(text: str) -> Iterator[tuple[str, ...]]:
    return (_terms(one.year, one.month, one.day) for one in _said(text) if one.year)


def _said(text: str) -> Iterator[_Said]:
    words = text.split()
    names = [word.strip(_AROUND).lower() for word in words]
    if _MONTHS.keys().isdisjoint(names):
        return
    for position, name in enumerate(names):
        month = _MONTHS.get(name)
        if month is not None:
            day, year = _beside(names, position)
            is_certain = _is_certain(words, names, position, numbered=bool(day or year))
            yield _Said(month, day, year, is_certain)


def _beside(names: Sequence[str], position: int) -> tuple[str | None, str | None]:
    """The day before or behind a month, and the year behind it."""
    before = [name for name in names[max(0, position - 2) : position] if name not in _OF][-1:]
    behind = [name for name in names[position + 1 : position + 4] if name not in _OF]
    day = _DAY.fullmatch(before[0]) if before else None
    if day is None and behind and (day := _DAY.fullmatch(behind[0])):
        behind = behind[1:]
    year = _YEAR.fullmatch(behind[0]) if behind else None
    return day and day[1], year and year[0]


def _is_certain(
    words: Sequence[str], names: Sequence[str], position: int, *, numbered: bool
) -> bool:
    """Whether a word is a month: "may" and "march" are words of their own."""
    name, is_capital = names[position], words[position].lstrip(_AROUND)[:1].isupper()
    if numbered:
        return is_capital or name not in ("may", "march")
    if name in _ALSO_WORDS:
        is_led = position > 0 and names[position - 1] in _LEADING
        return is_led and (is_capital or name != "may")
    return len(name) > _SHORT or name in _SHORT_MONTHS


def _by_number(text: str) -> Iterator[tuple[str, ...]]:
    for year in _YEAR.finditer(text):
        start, end = year.span()
        before = text[max(0, start - 12) : start]
        if before[-1:] in ("-", "/", ".") and (behind := _DAY_FIRST.search(before)):
            yield from _day_first(behind, year[0])
        elif (found := _EAST_ASIAN.match(text, end)) is not None:
            yield _terms(year[0], int(found[1]), found[2])
        elif not _goes_on(before) and (found := _YEAR_FIRST.match(text, end)) is not None:
            day = None if before.endswith(_WEEK_BEFORE) else found[2] or found[5]
            yield _terms(year[0], int(found[1] or found[4]), day)


def _goes_on(before: str) -> bool:
    """Whether a number belongs to what stands right before it, as in `v2023.1.2`."""
    return before[-1:].isalnum() or before[-1:] == "."


def _day_first(found: re.Match[str], year: str) -> Iterator[tuple[str, ...]]:
    """`08.05.2023`; with slashes both readings that are dates."""
    yield _terms(year, int(found[3]), found[1])
    if found[2] == "/":
        yield _terms(year, int(found[1]), found[3])


def _terms(year: str | None, month: int, day: str | None) -> tuple[str, ...]:
    try:
        named = date(int(year or 0), month, int(day or 1))
    except ValueError:
        return ()
    terms = date_terms(named)[:3]
    return terms if day else terms[1:]
