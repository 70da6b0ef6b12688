"""What a text is found by beside the words PostgreSQL stems: terms made of what its parser tears
apart or cannot split, which stand in the index as they are.

Exact terms and dates begin with `=`, pairs of characters of scripts written without spaces have no
prefix. No term holds whitespace.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from itertools import islice
from typing import Final, NamedTuple

from durable_context.absolute_dates import named_dates
from durable_context.dates import resolve_dates
from durable_context.exact_terms import (
    TERM_CHARACTERS,
    exact_terms,
    folded,
    normalized,
    pairs,
    without_unspaced,
)
from durable_context.models import Message
from durable_context.text import message_text
from durable_context.turns.messages import call_text

SEARCHED_CHARACTERS: Final = 20_000
"""Of a text, what is indexed."""
TERMS: Final = 2_000
_ELSEWHEN: Final = (
    *("yesterday", "tomorrow", "last ", "past ", "next ", " ago", "gestern", "morgen", "letzte"),
    *("vergangene", "vorige", "nächste", "kommende", "vor ", "hier", "demain", "derni", "prochain"),
    *("il y a", "ayer", "anoche", "mañana", "pasad", "próxim", "hace "),
)
"""What words for other days than today hold. Today has the terms of its turn."""
_ELSEWHEN_WORD: Final = re.compile("|".join(_ELSEWHEN))
_REACH: Final = 150
"""Characters on both sides of such a word that are read."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LEADING_NAME: Final = re.compile(r"\s{0,4}([^\W\d_][\w.'’ -]{0,39}): ")
_NAME_WORD: Final = re.compile(r"[^\W_]+")
_LABELS: Final = """
error errors warning warnings note notes notice todo fixme re fwd fw subject aw wg betreff question
answer q a summary example examples update user assistant system human ai bot tool step option fix
bug task date time from to cc bcc result results output input important tip ps nb info debug fyi
tldr hint context goal problem solution usage thanks traceback reason idea issue status hinweis
fehler achtung warnung frage antwort beispiel aufgabe attention erreur remarque objet pregunta
respuesta nota aviso asunto ejemplo title name author file feat chore docs test refactor style
perf
"""
_NO_NAMES: Final = frozenset(_LABELS.split())


class SearchText(NamedTuple):
    """What a text is found by: `text` goes through PostgreSQL's text search in the branch's
    language, `terms` are taken as they are. `speakers` are words of the names of who says it: asked
    for by name, everything they said would be found.
    """

    text: str
    terms: tuple[str, ...]
    speakers: tuple[str, ...] = ()


def search_text(text: str) -> SearchText:
    """Of a text that nobody says: an artifact, a summary."""
    return _search_text(text, None)


def message_search_text(
    message: Message, day: date | None = None, *, characters: int = SEARCHED_CHARACTERS
) -> SearchText:
    """Of the beginning of a message, its tool calls and its speaker; `day` is what "yesterday"
    counts from.
    """
    text = message_text(message)
    called = " ".join(_unescaped(call_text(call)) for call in message.tool_calls)
    found = _search_text(f"{text} {called}"[:characters], day)
    return found._replace(speakers=tuple(dict.fromkeys(_speakers(message.name, text))))


def _unescaped(arguments: str) -> str:
    """JSON as it reads: `\\n` is a space, and characters are themselves."""
    arguments = arguments[:SEARCHED_CHARACTERS]
    return _ESCAPE.sub(_character, arguments) if "\\" in arguments else arguments


def _character(escape: re.Match[str]) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    return " " if escape[2] in "bfnrt" else escape[2]


def _search_text(text: str, day: date | None) -> SearchText:
    text = normalized(text[:SEARCHED_CHARACTERS])[:SEARCHED_CHARACTERS]
    spaced, runs = without_unspaced(text)
    terms = dict.fromkeys(named_dates(text))
    if day is not None:
        terms.update(dict.fromkeys(_other_days(text, day)))
    for found in (exact_terms(spaced), pairs(runs)):
        if len(terms) < TERMS:
            terms.update(dict.fromkeys(found))
    return SearchText(folded(spaced), tuple(islice(terms, TERMS)))


def _other_days(text: str, day: date) -> Iterator[str]:
    """Terms of the days that words like "yesterday" mean."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _ELSEWHEN):
        return
    noon = datetime.combine(day, time(12), UTC)
    for piece in _around(lowered):
        resolved = resolve_dates(piece, noon)
        if resolved != piece:
            yield from named_dates(resolved)


def _around(text: str) -> Iterator[str]:
    """The pieces of a text around its hints, each long enough to tell its language by."""
    start = end = 0
    for hint in _ELSEWHEN_WORD.finditer(text):
        if hint.start() - _REACH > end:
            yield text[start:end]
            start = max(0, hint.start() - _REACH)
        end = hint.end() + _REACH
    yield text[start:end]


def _speakers(name: str | None, text: str) -> Iterator[str]:
    """The words of a name, and of one the text begins with, as in "Ada: hello"."""
    for words in (_words(name or ""), _leading_name(text)):
        for word in words:
            yield word.casefold()


def _leading_name(text: str) -> list[str]:
    match = _LEADING_NAME.match(text)
    if match is None:
        return []
    words = _words(match[1])
    named = 0 < len(words) <= 3 and all(word[0].isupper() for word in words)
    return words if named and words[0].casefold() not in _NO_NAMES else []


def _words(name: str) -> list[str]:
    return _NAME_WORD.findall(normalized(name[:TERM_CHARACTERS]))
