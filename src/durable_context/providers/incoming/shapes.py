"""Which format each message of a sequence is in, and all of them in OpenAI chat format.

Formats may be mixed. What is in none of them is passed on, for the reader of chat format to say
what is wrong with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from durable_context.models import Message
from durable_context.providers.incoming import anthropic, gemini, responses
from durable_context.providers.incoming.reading import (
    Fields,
    Unreadable,
    dumped,
    is_fields,
    is_items,
)
from durable_context.showing import shown

Placed = tuple[int, object]
"""A message in chat format, or a `Message`, and the position it was given at."""

_PLAIN = ("text", "image_url", "input_audio", "file", "refusal")
_CHAT_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "refusal"})


_LISTS = ("content", "tool_calls", "parts", "output")


class UnreadableAt(ValueError):
    """What is wrong with the message at a position."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


def chat_messages(values: Sequence[object], *, anthropic: bool = False) -> list[Placed]:
    """The messages in chat format. Raises UnreadableAt.

    Messages in chat format and `Message`s are passed on as they are. Lists of texts, which two
    formats have, are Anthropic's where something else is, or where the caller knows it.
    """
    if all(map(_is_plain, values)):
        return list(enumerate(values))
    return list(_Reader(anthropic).read(values))


def _is_plain(value: object) -> bool:
    """Whether it is certainly in chat format, found out fast."""
    if isinstance(value, Message):
        return True
    if type(value) is not dict:
        return False
    fields = cast(dict[str, Any], value)
    content, calls = fields.get("content"), fields.get("tool_calls")
    if not (content is None or type(content) is str) or not fields.keys() <= _CHAT_KEYS:
        return False
    return not calls or (
        type(calls) is list and all(type(call) is dict for call in cast(Any, calls))
    )


class _Reader:
    def __init__(self, anthropic: bool) -> None:
        self._anthropic = anthropic
        self._gemini = gemini.Reader()
        self._said = responses.Answer()
        self._first = 0

    def read(self, values: Sequence[object]) -> Iterator[Placed]:
        items = [(position, value, _shape(value)) for position, value in _items(values)]
        shapes = {shape for _, _, shape in items}
        mixed = "responses" in shapes
        texts = "anthropic" if self._anthropic or "anthropic" in shapes else "chat"
        for position, value, shape in items:
            shape = texts if shape == "texts" else shape
            try:
                if mixed and _is_output(value, shape):
                    self._first = position if self._said.empty else self._first
                    self._said.add(cast(Mapping[str, Any], value))
                    continue
                yield from self._spoken()
                for message in self._one(value, shape):
                    yield position, message
            except Unreadable as error:
                raise UnreadableAt(position, str(error)) from None
        yield from self._spoken()

    def _spoken(self) -> Iterator[Placed]:
        if not self._said.empty:
            yield self._first, self._said.message()
            self._said = responses.Answer()

    def _one(self, value: object, shape: str) -> Iterable[object]:
        if shape == "chat":
            return [value]
        fields = cast(Mapping[str, Any], value)
        if shape == "gemini":
            return self._gemini.to_chat(fields)
        return [responses.to_chat(fields)] if shape == "responses" else anthropic.to_chat(fields)


def _items(values: Sequence[object]) -> Iterator[Placed]:
    """SDK objects as dicts, and the items of a whole response one by one."""
    for position, value in enumerate(values):
        try:
            value = dumped(value)
            if is_fields(value):
                value = _with_dumped_items(_said_in(value))
        except Unreadable as error:
            raise UnreadableAt(position, str(error)) from None
        if is_fields(value) and value.get("object") == "response" and is_items(value.get("output")):
            yield from ((position, item) for item in value["output"])
        else:
            yield position, value


def _said_in(fields: Fields) -> Fields:
    """The message in a whole response of chat or of Gemini, or in one of its choices."""
    for several in ("choices", "candidates"):
        if is_items(fields.get(several)) and len(fields[several]) == 1:
            one = dumped(fields[several][0])
            return _said_in(one) if is_fields(one) else fields
    if "role" not in fields and "parts" not in fields:
        for key in ("message", "content"):
            if is_fields(inner := dumped(fields.get(key))) and "role" in inner:
                return inner
    return fields


def _with_dumped_items(fields: Fields) -> Fields:
    """What holds SDK objects in its lists, as `{"content": answer.content, ...}`."""
    found = {
        key: [dumped(item) for item in fields[key]]
        for key in _LISTS
        if is_items(fields.get(key)) and any(hasattr(item, "model_dump") for item in fields[key])
    }
    return {**fields, **found} if found else fields


def _shape(value: object) -> str:
    if isinstance(value, Message) or not is_fields(value):
        return "chat"
    if "parts" in value and "content" not in value:
        return "gemini"
    kind, content = value.get("type"), value.get("content")
    blocks = [block for block in content if is_fields(block)] if is_items(content) else []
    kinds = {block.get("type") for block in blocks if isinstance(block.get("type"), str)}
    if kind == "message":
        return "responses" if kinds & responses.MARKS or not blocks else _blocks_shape(kinds)
    if isinstance(kind, str) and "role" not in value:
        return "responses"
    if kinds & responses.MARKS:
        return "responses"
    if kinds & anthropic.MARKS or any(
        "cache_control" in block or "citations" in block for block in blocks
    ):
        return "anthropic"
    return "texts" if kinds == {"text"} and not value.get("tool_calls") else "chat"


def _blocks_shape(kinds: set[Any]) -> str:
    """Of a message that calls itself one: Anthropic's, unless only OpenAI speaks so."""
    return "responses" if kinds <= {"refusal"} else "anthropic"


def _is_output(value: object, shape: str) -> bool:
    """Whether a model said it, in a sequence of Responses items."""
    if not is_fields(value):
        return False
    if shape == "responses" and value.get("type", "message") != "message":
        kind = value["type"]
        if kind not in responses.ITEMS:
            raise Unreadable(f"item {shown(kind)} is not one of {', '.join(responses.ITEMS)}")
        return kind in responses.OUTPUT
    if value.get("role") != "assistant":
        return False
    # Without a type it is an item's short form, as long as nothing says otherwise.
    return shape == "responses" or (
        isinstance(value.get("content"), str) and value.keys() <= {"role", "content", "phase"}
    )
