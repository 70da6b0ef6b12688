"""A prompt's messages as renderers walk them: content as parts, and what its provider wants back
beside each part and call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_context.models import Reasoning
from durable_context.providers.reasoning import Provider, place_of, stand_in
from durable_context.text import clean

Blocks = Mapping[int, Sequence[Reasoning]]
"""What providers want back, by position of its message."""


@dataclass(slots=True)
class Slot:
    """A place in a message: of a content part, of a call, or of neither. `before` are blocks that
    stand alone, `instead` those for which the part's text stands elsewhere, and `frame` fields of
    the item itself.
    """

    part: Mapping[str, Any] | None = None
    call: Mapping[str, Any] | None = None
    before: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    instead: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    frame: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message. `head` and `tail` are the places before and after its parts; `text` is its
    content where that is one text.
    """

    position: int
    role: str
    name: str | None
    answers: str
    text: str | None
    head: Slot
    parts: list[Slot]
    tail: Slot
    calls: list[Slot]

    def slots(self) -> Iterator[Slot]:
        """All places in the order in which the model spoke."""
        yield self.head
        yield from self.parts
        yield self.tail
        yield from self.calls


def spoken(
    messages: Sequence[Mapping[str, Any]], blocks: Blocks, provider: Provider
) -> Iterator[Spoken]:
    """Each message with the blocks that are this provider's."""
    for position, message in enumerate(messages):
        one = _spoken(position, message)
        _place(one, [b for b in blocks.get(position, ()) if b.provider == provider])
        yield one


def part_text(part: Mapping[str, Any]) -> str | None:
    """What a text part says; None for other parts."""
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return part[key]
    return None


def _spoken(position: int, message: Mapping[str, Any]) -> Spoken:
    content: Any = message.get("content")
    text = content if isinstance(content, str) else None
    parts: list[Any] = list(content or ()) if text is None else [{"type": "text", "text": text}]
    return Spoken(
        position=position,
        role=message["role"],
        name=message.get("name"),
        answers=message.get("tool_call_id") or "",
        text=text,
        head=Slot(),
        parts=[Slot(part=part) for part in parts],
        tail=Slot(),
        calls=[Slot(call=call) for call in message.get("tool_calls") or ()],
    )


def _place(one: Spoken, blocks: Sequence[Reasoning]) -> None:
    placed = [(block, _slot(one, block), place_of(block.block)) for block in blocks]
    # Text that was shortened no longer says what stood there; and a server's calls and results
    # are only taken together.
    verbatim = all(
        slot.part is not None and part_text(slot.part) == clean(stand_in(block.block))
        for block, slot, place in placed
        if place == "instead"
    )
    for block, slot, place in placed:
        if place == "frame":
            slot.frame.update(block.block)
        elif place == "alone":
            slot.before.append(block.block)
        elif verbatim:
            slot.instead.append(block.block)


def _slot(one: Spoken, block: Reasoning) -> Slot:
    if block.call_id is not None:
        wanted = clean(block.call_id)
        return next((s for s in one.calls if s.call and s.call["id"] == wanted), one.tail)
    if block.part is None:
        return one.head
    return one.parts[block.part] if block.part < len(one.parts) else one.tail
