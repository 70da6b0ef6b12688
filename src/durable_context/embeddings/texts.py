"""What of a turn is embedded: what user and assistant said, redacted and cut."""

from collections.abc import Sequence
from typing import Final

from durable_context.models import Message, Turn
from durable_context.redaction import redact
from durable_context.text import ELLIPSIS, clean, message_text

EMBEDDED_CHARACTERS: Final = 4_000
"""Of a turn. About 1,000 tokens: beyond that, one vector says little of any part."""
SHORT_CHARACTERS: Final = 1_000
"""For a model whose window is too small for the others."""
_READ: Final = 100_000
"""Characters of a message that are redacted, at its beginning and at its end: more than are kept,
so that no secret is cut in two.
"""


def embedded_text(turn: Turn, characters: int = EMBEDDED_CHARACTERS) -> str:
    """Half of the room is the user's where both said much. A turn in which nobody said anything,
    such as a stretch of tool calls, is told by its digest. Empty if there is nothing at all.
    """
    asked = _said(turn.messages, "user")
    answered = _said(turn.messages, "assistant")
    if not asked and not answered:
        return _ends(_redacted(turn.digest), characters)
    half = characters // 2
    asked = _ends(asked, max(half, characters - len(answered)))
    answered = _ends(answered, max(half, characters - len(asked)))
    return "\n".join(filter(None, (asked, answered)))


def query_text(text: str) -> str:
    """A query as the turns that it is compared with: what leaves for the endpoint is redacted."""
    return _ends(_redacted(text), EMBEDDED_CHARACTERS)


def _said(messages: Sequence[Message], role: str) -> str:
    texts = (_redacted(message_text(one)) for one in messages if one.role == role)
    return "\n".join(filter(None, texts))


def _redacted(text: str) -> str:
    if len(text) > 2 * _READ:
        text = f"{text[:_READ]}\n{ELLIPSIS}\n{text[-_READ:]}"
    return redact(clean(text)).strip()


def _ends(text: str, characters: int) -> str:
    """Beginning and end, where it is longer."""
    if len(text) <= characters:
        return text
    end = (characters - 3) // 2
    return f"{text[:end]} {ELLIPSIS} {text[-end:]}"
