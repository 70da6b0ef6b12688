"""A text that is no conversation, in its own words: of JSON the shape, of prose and logs the lines
that say most, of anything else beginning and end.
"""

import re
from collections import Counter
from typing import Final

from durable_context.redaction import redact
from durable_context.summarizers import SummaryRequest
from durable_context.summarizers.attributed import Said
from durable_context.summarizers.headlines import goal_headline
from durable_context.summarizers.limits import headline_cap, text_cap
from durable_context.summarizers.selection import Selection, select
from durable_context.summarizers.spoken import ends, plain_sentences
from durable_context.text import ELLIPSIS, clean, message_text, shorten
from durable_context.tokens import TokenCounter
from durable_context.turns.views import content_view

_READ: Final = 60_000
_SENTENCES: Final = 300
_FEWEST: Final = 3
_WORDS: Final = 4
"""A document with fewer sentences, of so many words at least, is a table or code."""
_GROUP: Final = 10
_FIRST_SHARE: Final = 0.3
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_MANY_LINES: Final = 20
_COMMON: Final = 0.05
_ALIKE: Final = 0.8
_RARE: Final = 2
_FEW: Final = 6
_ODD_SHARE: Final = 0.4


def condense(request: SummaryRequest, counter: TokenCounter) -> tuple[str, str]:
    """Headline and text, which begins with what the artifact is."""
    text = "\n".join(map(message_text, request.turns[0].messages))
    is_json = text.lstrip()[:1] in ("{", "[")
    text = redact(clean(text if is_json else _read(text)))
    label = f"{request.artifact}: "
    room = max(1, text_cap(request) - counter.count(label) - 1)
    odd = "" if is_json else _odd(text, int(room * _ODD_SHARE), counter)
    room = max(1, room - counter.count(odd))
    told, first = ("", "") if is_json else _told(text, room, counter)
    told = told or content_view(text, room, counter)
    headline = goal_headline(first, [told], headline_cap(request), counter)
    return headline, shorten(label + odd + told, text_cap(request), counter)


def _odd(text: str, room: int, counter: TokenCounter) -> str:
    """Of a table or log whose lines are alike those that are not, by words that hardly any other
    line has: they are what somebody will ask for.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    words = [frozenset(_WORD.findall(line.casefold())) for line in lines]
    known = Counter(word for line in words for word in line)
    common = {word for word, count in known.items() if count >= len(lines) * _COMMON}
    alike = sum(1 for line in words if line and line <= common)
    rare = [
        line
        for line, own in zip(lines[1:], words[1:], strict=True)  # the first names the columns
        if any(known[word] <= _RARE for word in own)
    ]
    if len(lines) < _MANY_LINES or alike < len(lines) * _ALIKE or not 0 < len(rare) <= _FEW:
        return ""
    return shorten("unlike the others: " + " | ".join(rare), room, counter) + "\n"


def _told(text: str, room: int, counter: TokenCounter) -> tuple[str, str]:
    """What prose tells, and the sentence that its headline begins with; nothing, where it is a
    table or code.
    """
    sentences = plain_sentences(text)
    if sum(len(one.split()) >= _WORDS for one in sentences) < _FEWEST:
        return "", ""
    first, *others = sentences
    title = Said(-1, 0, "", "", "", shorten(first, int(room * _FIRST_SHARE), counter))
    said = [
        Said(place // _GROUP, place, "", "", "", sentence)
        for place, sentence in enumerate(ends(others, _SENTENCES))
    ]
    return select(Selection(said, fixed=[title], told=[first]), room, counter).text, first


def _read(text: str) -> str:
    """Half from its beginning, a quarter each from its middle and end."""
    if len(text) <= _READ:
        return text
    quarter, middle = _READ // 4, len(text) // 2
    parts = (text[: 2 * quarter], text[middle : middle + quarter], text[-quarter:])
    return f"\n{ELLIPSIS}\n".join(parts)
