"""A text that is no conversation, in its own words: of JSON the shape, of prose and logs the lines
that say most, of anything else beginning and end.
"""

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


def condense(request: SummaryRequest, counter: TokenCounter) -> tuple[str, str]:
    """Headline and text, which begins with what the artifact is."""
    text = "\n".join(map(message_text, request.turns[0].messages))
    is_json = text.lstrip()[:1] in ("{", "[")
    text = redact(clean(text if is_json else _read(text)))
    label = f"{request.artifact}: "
    room = max(1, text_cap(request) - counter.count(label) - 1)
    told, first = ("", "") if is_json else _told(text, room, counter)
    told = told or content_view(text, room, counter)
    headline = goal_headline(first, [told], headline_cap(request), counter)
    return headline, shorten(label + told, text_cap(request), counter)


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
