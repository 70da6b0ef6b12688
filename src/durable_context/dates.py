"""Puts the absolute date behind relative ones, no more precise than what was said."""

import calendar
import re
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple, TypeVar

_Name = TypeVar("_Name", int, str)


class _Language(NamedTuple):
    common: frozenset[str]
    fixed: dict[str, int]
    pattern: re.Pattern[str]


def _words(*rows: str) -> dict[str, int]:
    return {word: number for number, row in enumerate(rows) for word in row.split()}


_WEEKDAYS: Final = _words(
    "monday montag lundi lunes",
    "tuesday dienstag mardi martes",
    "wednesday mittwoch mercredi miércoles",
    "thursday donnerstag jeudi jueves",
    "friday freitag vendredi viernes",
    "saturday samstag samedi sábado",
    "sunday sonntag dimanche domingo",
)
_NUMBERS: Final = _words(
    "zero",
    "a an one einem einer un une una",
    "two zwei deux dos",
    "three drei trois tres",
    "four vier quatre cuatro",
    "five fünf cinq cinco",
    "six sechs seis",
    "seven sieben sept siete",
    "eight acht huit ocho",
    "nine neun neuf nueve",
    "ten zehn dix diez",
)
_DIRECTIONS: Final = {
    -1: ("last", "past", "letzt", "vergangen", "vorig", "derni", "passé", "pasad"),
    0: ("this", "dies", "cette", "ce", "est"),
    1: ("next", "nächst", "kommend", "prochain", "próxim"),
}
_UNITS: Final = {
    "weekend": ("weekend", "wochenende", "week-end", "fin de semana"),
    "day": ("day", "tag", "jour", "día"),
    "week": ("week", "woche", "semaine", "semana"),
    "month": ("month", "monat", "mois", "mes"),
    "year": ("year", "jahr", "an", "año"),
}
_MONTHS: Final = tuple(calendar.month_name[1:])
_ANY_DAY: Final = "|".join(_WEEKDAYS)
_COUNT: Final = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})"
_HINTS: Final = (
    *("yesterday", "today", "tonight", "tomorrow", "last ", "past ", "this ", "next ", " ago"),
    *("gestern", "heute", "morgen", "letzte", "vergangene", "vorige", "diese", "nächste"),
    *("kommende", "vor ", "hier", "aujourd", "ce matin", "ce soir", "demain", "derni"),
    *("prochain", "cette ", "ce mois", "il y a", "ayer", "anoche", "hoy", "mañana", "pasad"),
    *("próxim", "esta ", "este ", "hace "),
)
_SAMPLE: Final = 2_000
_WORD: Final = re.compile(r"[^\W\d_]+")


def _language(common: str, fixed: dict[str, int], turned: str, ago: str) -> _Language:
    """`fixed` maps phrases, which may be patterns, to days from today."""
    if "rel2" not in turned:
        turned += "|(?P<unit2>(?!))(?P<rel2>(?!))"
    phrases = "|".join(fixed)
    pattern = rf"(?<![\w/-])(?:(?P<fixed>{phrases})|{ago}|{turned})(?:['’]s)?(?![\w/-])"
    return _Language(
        frozenset(common.split()),
        {re.sub(r"\(\?<!.*?\)", "", phrase): days for phrase, days in fixed.items()},
        re.compile(pattern, re.IGNORECASE),
    )


_DATE_FOLLOWS: Final = re.compile(
    r"[\s,]{0,2}[(\[]?(?:on |the |am |den |le |el )?"
    r"(?:\d{4}-\d|\d{1,2}(?:st|nd|rd|th|\.)? ?(?:of |de )?"
    r"(?:jan|feb|fev|fév|ene|mar|mär|a[pvb]r|ma[iy]|ju[nil]|ag|aug|aoû|sep|o[ck]t|nov|d[eéi][cz]"
    r"|/|\.\d)"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? \d"
    r"|[(\[](?:week|weekend) of )",
    re.IGNORECASE,
)


_ENGLISH: Final = _language(
    "the and is was to of in you that it for with have this",
    {
        "the day before yesterday": -2,
        "day before yesterday": -2,
        "the day after tomorrow": 2,
        "day after tomorrow": 2,
        "yesterday morning": -1,
        "yesterday afternoon": -1,
        "yesterday evening": -1,
        "yesterday": -1,
        "last night": -1,
        "today": 0,
        "tonight": 0,
        "this morning": 0,
        "this afternoon": 0,
        "this evening": 0,
        "tomorrow morning": 1,
        "tomorrow": 1,
    },
    rf"(?P<rel>last|past|this|next) (?P<unit>week(?:end)?|month|year|{_ANY_DAY})",
    rf"{_COUNT} (?P<period>days?|weeks?|months?|years?) ago",
)
_GERMAN: Final = _language(
    "der die das und ist nicht ich wir mit für ein eine war dem den habe haben dort noch auch",
    {
        "vorgestern": -2,
        "gestern abend": -1,
        "gestern": -1,
        "heute morgen": 0,
        "heute abend": 0,
        "heute": 0,
        "übermorgen": 2,
        "morgen früh": 1,
        "(?<!guten )(?<!jeden )(?<!am )morgen": 1,
    },
    r"(?P<rel>(?:letzt|vergangen|vorig|dies|nächst|kommend)e[nrs]?)"
    rf" (?P<unit>woche|monat|jahr|wochenende|{_ANY_DAY})",
    rf"vor {_COUNT} (?P<period>tag(?:en)?|wochen?|monat(?:en)?|jahr(?:en)?)",
)
_FRENCH: Final = _language(
    "le la les des est et je nous vous pour avec une dans pas que qui du ai suis été",
    {
        "avant-hier": -2,
        "hier soir": -1,
        "hier": -1,
        "aujourd'hui": 0,
        "ce matin": 0,
        "ce soir": 0,
        "après-demain": 2,
        "demain": 1,
    },
    r"(?P<rel>cette|ce) (?P<unit>semaine|mois|année|week-end)"
    rf"|(?P<unit2>semaine|mois|année|an|week-end|{_ANY_DAY}) (?P<rel2>derni(?:er|ère)|prochaine?)",
    rf"il y a {_COUNT} (?P<period>jours?|semaines?|mois|ans?)",
)
_SPANISH: Final = _language(
    "el la los las es y que de en un una para con por no se mi he fue está lo",
    {
        "anteayer": -2,
        "ayer": -1,
        "anoche": -1,
        "hoy": 0,
        "esta mañana": 0,
        "esta noche": 0,
        "pasado mañana": 2,
        "(?<!la )(?<!esta )mañana": 1,
    },
    r"(?P<rel>est[ae]|próxim[oa]) (?P<unit>semana|mes|año|fin de semana)"
    rf"|(?P<unit2>semana|mes|año|{_ANY_DAY}) (?P<rel2>pasad[oa]|próxim[oa])",
    rf"hace {_COUNT} (?P<period>días?|semanas?|mes(?:es)?|años?)",
)


def resolve_dates(text: str, occurred_at: datetime) -> str:
    """Relative dates followed by what they meant when the text was written."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    language = _language_of(text)
    today = occurred_at.date()

    def resolved(match: re.Match[str]) -> str:
        meant = _meaning(match, language, today)
        if meant is None or _DATE_FOLLOWS.match(text, match.end()):
            return match[0]
        return f"{match[0]} ({meant})"

    return language.pattern.sub(resolved, text)


def _language_of(text: str) -> _Language:
    """The language most of the text's common words belong to, English when in doubt."""
    words = [word.lower() for word in _WORD.findall(text[:_SAMPLE])]
    languages = (_ENGLISH, _GERMAN, _FRENCH, _SPANISH)
    return max(languages, key=lambda language: sum(word in language.common for word in words))


def _meaning(match: re.Match[str], language: _Language, today: date) -> str | None:
    try:
        if match["fixed"]:
            return _shifted(today, language.fixed[match["fixed"].lower().replace("’", "'")])
        if match["count"]:
            return _ago(match, today)
        return _turned(match, today)
    except (OverflowError, ValueError):
        return None


def _shifted(today: date, days: int) -> str:
    return (today + timedelta(days=days)).isoformat()


def _ago(match: re.Match[str], today: date) -> str | None:
    word = match["count"].lower()
    count = int(word) if word.isdigit() else _NUMBERS[word]
    unit = _canonical(match["period"], _UNITS)
    return _shifted(today, -count) if unit == "day" else _period(str(unit), -count, today)


def _turned(match: re.Match[str], today: date) -> str | None:
    """`last week`, `next Friday` and the like."""
    groups = match.groupdict()
    rel, unit_word = groups.get("rel") or groups["rel2"], groups.get("unit") or groups["unit2"]
    direction = _canonical(rel, _DIRECTIONS)
    if direction is None:
        return None
    weekday = _WEEKDAYS.get(unit_word.lower())
    if weekday is not None:
        return _weekday(weekday, direction, today)
    unit = _canonical(unit_word, _UNITS)
    return None if unit is None else _period(unit, direction, today)


def _weekday(weekday: int, direction: int, today: date) -> str:
    """The last one before today, that of this week, or the next; both where people disagree."""
    ahead = weekday - today.weekday()
    if direction == -1:
        return _shifted(today, ahead if ahead < 0 else ahead - 7)
    if direction == 0:
        return _shifted(today, ahead)
    if ahead <= 0:
        return _shifted(today, ahead + 7)
    return f"{_shifted(today, ahead)} or {_shifted(today, ahead + 7)}"


def _period(unit: str, shift: int, today: date) -> str:
    monday = today - timedelta(days=today.weekday())
    if unit == "week":
        return f"week of {monday + timedelta(weeks=shift)}"
    if unit == "weekend":
        return f"weekend of {monday + timedelta(weeks=shift, days=5)}"
    if unit == "month":
        months = today.year * 12 + today.month - 1 + shift
        return f"{_MONTHS[months % 12]} {date(months // 12, 1, 1).year}"
    return str(date(today.year + shift, 1, 1).year)


def _canonical(word: str, table: dict[_Name, tuple[str, ...]]) -> _Name | None:
    lowered = word.lower()
    return next((name for name, starts in table.items() if lowered.startswith(starts)), None)
