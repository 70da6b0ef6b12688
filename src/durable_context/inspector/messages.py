"""Messages of a turn as pages show them: parts of bounded length, whatever a message holds."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from durable_context.artifacts.media import is_stored_part
from durable_context.cli.output import visible
from durable_context.models import Message

MESSAGES: Final = 50
"""On one page."""
_ROOM: Final = 50_000
"""Characters of all messages of a page."""
_LEAST: Final = 250
_MOST: Final = 12_000
"""Characters of each part."""
_PARTS: Final = 200
"""Of all messages of a page."""
_FACTS: Final = 4_000


class Piece(NamedTuple):
    """A part of a message. `kind`: text, call, part, reasoning, extra; `handle`: of an artifact.
    `left_out`: characters that are not shown.
    """

    kind: str
    label: str
    text: str
    left_out: int
    handle: str | None = None


class ShownMessage(NamedTuple):
    """`number` counts from 1 in the turn; `more` parts are not shown."""

    number: int
    message: Message
    tokens: int | None
    pieces: tuple[Piece, ...]
    more: int

    @property
    def is_cut(self) -> bool:
        return bool(self.more) or any(piece.left_out for piece in self.pieces)


def shown_messages(
    messages: Sequence[Message], tokens: Sequence[int], first: int
) -> tuple[ShownMessage, ...]:
    """Those from number `first`, as many as a page has."""
    chosen = messages[first - 1 : first - 1 + MESSAGES]
    each = _PARTS // max(1, len(chosen))
    parts = [list(_pieces(message)) for message in chosen]
    count = sum(min(each, len(pieces)) for pieces in parts)
    room = max(_LEAST, min(_MOST, _ROOM // max(1, count)))
    return tuple(
        ShownMessage(
            number=number,
            message=message,
            tokens=tokens[number - 1] if number <= len(tokens) else None,
            pieces=tuple(_cut(piece, room) for piece in pieces[:each]),
            more=max(0, len(pieces) - each),
        )
        for number, (message, pieces) in enumerate(zip(chosen, parts, strict=True), first)
    )


def whole_text(message: Message) -> str:
    """All of a message, one part after the other."""
    pieces = list(_pieces(message))
    if len(pieces) == 1 and pieces[0].kind == "text":
        return pieces[0].text
    return "\n\n".join(f"[{piece.kind} {piece.label}]\n{piece.text}" for piece in pieces)


def shown_json(value: object) -> str:
    """Of bounded length."""
    text = _json(value)
    return text if len(text) <= _FACTS else f"{text[:_FACTS]}…"


def _pieces(message: Message) -> Iterator[Piece]:
    for reasoning in message.reasoning:
        yield Piece("reasoning", reasoning.provider, _json(reasoning.block), 0)
    if isinstance(message.content, str):
        yield Piece("text", "", message.content, 0, message.artifact)
    for part in message.content if isinstance(message.content, tuple) else ():
        yield _part(part)
    for call in message.tool_calls:
        yield Piece("call", call.name, call.arguments, 0)
    if message.extra:
        yield Piece("extra", "not sent", _json(message.extra), 0)


def _part(part: Mapping[str, Any]) -> Piece:
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return Piece("text", "", part["text"], 0)
    handle = str(part["artifact"]["handle"]) if is_stored_part(part) else None
    return Piece("part", str(part.get("type")), _json(part), 0, handle)


def _cut(piece: Piece, room: int) -> Piece:
    """What does not show is longer once it does."""
    whole = visible(piece.text[:room])
    text = whole[:room]
    left_out = max(0, len(piece.text) - room) or len(whole) - len(text)
    return piece._replace(text=text, label=visible(piece.label[:200]), left_out=left_out)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
