"""The absolute dates a text names, as terms it is found by.

A day has a term of its own and those of its month, its year and the month of any year.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

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
"""Names no longer than this are said of other things too, unless one is listed as a month."""
_ALSO_WORDS: Final = frozenset({"may", "march", "mars", "mayo", "august", "mei"})
_UNMISTAKABLE: Final = frozenset({"june", "july", "juni", "juin", "juli", "mai"})

_NAMES: Final = "|".join(sorted(_MONTHS, key=lambda name: (-len(name), name)))
_YEAR: Final = r"(?:1[6-9]|20|21)\d\d"
_HAS_YEAR: Final = re.compile(rf"(?<!\d){_YEAR}(?!\d)")
_ORDINAL: Final = r"(?:st|nd|rd|th|er|o|\.)?"
_SAID: Final = re.compile(
    rf"(?<![\w.])(?:(?P<before>\d{{1,2}}){_ORDINAL}\s{{1,2}}(?:of\s|de\s)?)?"
    rf"(?P<month>{_NAMES})\b\.?"
    rf"(?:\s{{1,2}}(?P<after>\d{{1,2}}){_ORDINAL}(?:\s?[-–]\s?\d{{1,2}})?(?!\w))?"
    rf",?\s{{1,2}}(?:of\s|de\s|del\s)?(?P<year>{_YEAR})(?!\w)",
    re.IGNORECASE,
)
_YEAR_FIRST: Final = re.compile(
    rf"(?<!\d)({_YEAR})([-/.])(\d{{1,2}})(?:\2(\d{{1,2}}))?(?![\d-])(?!\.\d)"
)
_DAY_FIRST: Final = re.compile(rf"(?<![\d.])(\d{{1,2}})([./-])(\d{{1,2}})\2({_YEAR})(?![\d-])")
_CHINESE: Final = re.compile(
    rf"({_YEAR})\s?[年년]\s?(\d{{1,2}})\s?[月월](?:\s?(\d{{1,2}})\s?[日号일])?"
)
_WEEK: Final = re.compile(rf"(?<=\()week(?:end)? of ({_YEAR}-\d\d)-\d\d(?=\))")
_ASKED: Final = re.compile(rf"(?:(?<!\w)(\w{{1,12}})\s{{1,2}})?\b({_NAMES})\b(?!\w)", re.IGNORECASE)
_LEADING_WORDS: Final = """
in since last of until till before after by during this next early late mid through from every
im seit letzten bis vor nach ab anfang ende mitte en depuis fin début de desde hasta a nel di em até
sinds begin
"""
_LEADING: Final = frozenset(_LEADING_WORDS.split())
_NUMBER_BEHIND: Final = re.compile(r"\.?,?\s{1,2}\d")
_NUMBER_BEFORE: Final = re.compile(rf"\d{_ORDINAL}\s{{1,2}}(?:of |de )?$", re.IGNORECASE)


def date_terms(day: date) -> tuple[str, str, str, str]:
    """What everything said on this day is found by: the day, its month, its year, and the month of
    any year.
    """
    return (f"={day}", f"={day:%Y-%m}", f"={day:%Y}", f"=--{day:%m}")


def named_dates(text: str) -> tuple[str, ...]:
    """Terms of the days and of the months with a year that a text names, in NFKC.

    `(week of 2023-05-01)`, which stands behind a resolved "last week", is no finer than its month.
    """
    if _HAS_YEAR.search(text) is None:
        return ()
    return tuple(dict.fromkeys(term for found in _found(_WEEK.sub(r"\1", text)) for term in found))


def asked_months(text: str) -> tuple[str, ...]:
    """Terms of the months a question names without a year, as in "what did we do in May?"."""
    found = (_asked_month(text, match) for match in _ASKED.finditer(text))
    return tuple(dict.fromkeys(f"=--{month:02}" for month in found if month))


def _found(text: str) -> Iterator[tuple[str, ...]]:
    for match in _SAID.finditer(text):
        day = match["before"] or match["after"]
        yield _terms(match["year"], _MONTHS[match["month"].lower()], day)
    for match in _YEAR_FIRST.finditer(text):
        yield _terms(match[1], int(match[3]), match[4])
    for match in _DAY_FIRST.finditer(text):
        yield from _day_first(match)
    for match in _CHINESE.finditer(text):
        yield _terms(match[1], int(match[2]), match[3])


def _day_first(match: re.Match[str]) -> Iterator[tuple[str, ...]]:
    """`08.05.2023`; with slashes both readings that are dates."""
    yield _terms(match[4], int(match[3]), match[1])
    if match[2] == "/":
        yield _terms(match[4], int(match[1]), match[3])


def _terms(year: str, month: int, day: str | None) -> tuple[str, ...]:
    try:
        named = date(int(year), month, int(day or 1))
    except ValueError:
        return ()
    terms = date_terms(named)[:3]
    return terms if day else terms[1:]


def _asked_month(text: str, match: re.Match[str]) -> int | None:
    before, name = (match[1] or "").lower(), match[2]
    month = name.lower()
    if _is_numbered(text, match):
        return _MONTHS[month]
    if month in _ALSO_WORDS:
        capital = name[0].isupper() or month != "may"
        return _MONTHS[month] if capital and before in _LEADING else None
    if len(month) <= _SHORT and month not in _UNMISTAKABLE:
        return None
    return _MONTHS[month]


def _is_numbered(text: str, match: re.Match[str]) -> bool:
    """Whether a day or a year stands beside the month."""
    if not match[2][0].isupper() and match[2].lower() in ("may", "march", "mar"):
        return False
    start = match.start(2)
    before = _NUMBER_BEFORE.search(text, max(0, start - 12), start)
    return before is not None or _NUMBER_BEHIND.match(text, match.end()) is not None
