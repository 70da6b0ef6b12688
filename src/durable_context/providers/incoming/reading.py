"""What readers of all formats share."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from durable_context import stored_json
from durable_context.errors import InvalidTurn
from durable_context.models import Reasoning, Value
from durable_context.providers.reasoning import Provider, stand_in
from durable_context.showing import shown
from durable_context.text import clean

ChatMessage = dict[str, Any]
"""A message in OpenAI chat format, which may hold `reasoning`."""
Fields = Mapping[str, Any]


class Unreadable(ValueError):
    """What is wrong with a message, without its place."""


class Content:
    """A message's content while it is read: its parts, and what only its provider can read."""

    def __init__(self, provider: Provider) -> None:
        self.parts: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.reasoning: list[Reasoning] = []
        self.extra: dict[str, Any] = {}
        self._provider: Provider = provider

    def say(self, text: str) -> None:
        self.parts.append({"type": "text", "text": text})

    def keep(self, block: Fields, *, call_id: str | None = None) -> None:
        """Before the next part, or what belongs to a call."""
        part = None if call_id is not None or not self.parts else len(self.parts)
        self._keep(block, call_id, part)

    def keep_at(self, place: int | str, fields: Fields) -> None:
        """Fields of the part of this number, or of the call of this id."""
        if isinstance(place, str):
            self._keep(fields, place, None)
        else:
            self._keep(fields, None, place)

    def stand_in(self, block: Fields) -> None:
        """What only its provider can read, with a text for the others."""
        check_values(block, "a block")
        self.say(clean(stand_in(block)))
        self._keep(block, None, len(self.parts) - 1)

    def call(self, call_id: str, name: str, arguments: str) -> None:
        function = {"name": name, "arguments": arguments}
        self.calls.append({"id": call_id, "type": "function", "function": function})

    def _keep(self, block: Fields, call_id: str | None, part: int | None) -> None:
        check_values(block, "a block")
        kept = Reasoning(provider=self._provider, block=dict(block), call_id=call_id, part=part)
        self.reasoning.append(kept)

    def message(self, role: str, **fields: Any) -> ChatMessage:
        """A single text is the content itself."""
        texts = [part["text"] for part in self.parts if part["type"] == "text"]
        content: Any = self.parts or None
        if len(self.parts) == 1 and len(texts) == 1 and len(self.parts[0]) == 2:
            content = texts[0]
        message = {"role": role, "content": content, **fields}
        if self.calls:
            message["tool_calls"] = self.calls
        if self.reasoning:
            message["reasoning"] = [one.model_dump(exclude_defaults=True) for one in self.reasoning]
        return message | ({"extra": self.extra} if self.extra else {})


def dumped(value: object) -> object:
    """An SDK's object as a dict; our own, classes, and all else as they are."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump) or isinstance(value, type | Value):
        return value
    try:
        return dump(exclude_none=True)
    except Exception as error:
        raise Unreadable(
            f"{type(value).__name__} cannot be read: its model_dump raised {type(error).__name__}"
        ) from error


def is_fields(value: object) -> TypeGuard[Fields]:
    return isinstance(value, Mapping)


def is_items(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def wanted(fields: Fields, key: str, what: str) -> str:
    """A text that the format demands."""
    value = fields.get(key)
    if isinstance(value, str):
        return value
    raise Unreadable(f"a {what} needs {shown(key)} as text, not {shown(value)}")


def optional_text(fields: Fields, key: str, default: str) -> str:
    """A text that may be missing; what is no text is not taken for one."""
    value = fields.get(key)
    return value if isinstance(value, str) and value else default


def check_values(value: object, where: str) -> None:
    """That it can be stored as JSON."""
    try:
        stored_json.check_json(value, where)
    except InvalidTurn as error:
        raise Unreadable(str(error)) from None


def arguments_text(value: object, name: str) -> str:
    """Arguments of a call as JSON text."""
    if isinstance(value, str):
        return value
    check_values(value, f"an argument of {shown(name)}")
    return json.dumps({} if value is None else value, ensure_ascii=False)


def rest_of(fields: Fields, *known: str) -> dict[str, Any]:
    """Fields that the format knows nothing of and that hold something."""
    return {k: v for k, v in fields.items() if k not in known and v not in (None, [], {})}
