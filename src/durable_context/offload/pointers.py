"""What a compacted tool message says: the beginning of its result, and where all of it is."""

import re
from typing import Any, Final, cast

from durable_context.errors import DurableContextError
from durable_context.offload.stores import OffloadStore
from durable_context.processors.history import text_of, with_content

_REFERENCE: Final = re.compile(r"\(detailed result is stored in (\S+)\)\Z")
_ELLIPSIS: Final = "... "


def pointer(content: str, reference: str, preview_chars: int) -> str:
    place = f"(detailed result is stored in {reference})"
    return f"{content[:preview_chars]}{_ELLIPSIS}{place}" if preview_chars else place


def pointing(message: dict[str, Any], text: str) -> dict[str, Any]:
    """The message with a pointer in place of its text. Parts that are no text stay."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return with_content(message, text)
    parts: list[dict[str, Any]] = []
    waiting: str | None = text
    for part in cast("list[dict[str, Any]]", content):
        if not isinstance(part.get("text"), str):
            parts.append(part)
        elif waiting is not None:
            parts.append({**part, "text": waiting})
            waiting = None
    return with_content(message, parts)


async def is_pointer(message: dict[str, Any], store: OffloadStore) -> bool:
    """Whether the store holds what the message points to, which is more and begins as it does. What
    merely looks like a pointer is a result like any other.
    """
    text = text_of(message)
    found = _REFERENCE.search(text)
    if found is None:
        return False
    before = text[: found.start()]
    if before and not before.endswith(_ELLIPSIS):
        return False
    try:
        content = await store.load(found[1])
    except (OSError, DurableContextError):
        return False
    return len(text) < len(content) and content.startswith(before.removesuffix(_ELLIPSIS))
