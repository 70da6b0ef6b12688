"""Items of OpenAI's Responses API: input and output alike.

What a response says between two inputs is one assistant message: its reasoning, texts and calls.
Ids of items are kept beside reasoning, which they belong to, and dropped elsewhere, where the
service refuses or ignores them.
"""

from collections.abc import Sequence
from typing import Any, Final

from durable_context.providers.incoming.media import data_part
from durable_context.providers.incoming.reading import (
    ChatMessage,
    Content,
    Fields,
    Unreadable,
    arguments_text,
    check_values,
    is_fields,
    is_items,
    optional_text,
    rest_of,
    wanted,
)
from durable_context.showing import shown

SERVER_ITEMS: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "tool_search_call",
    "tool_search_output",
)
"""Items of the service's own tools: they stay as they are, with a text for others."""
CALLS: Final = ("function_call", "custom_tool_call")
RESULTS: Final = ("function_call_output", "custom_tool_call_output")
OUTPUT: Final = (*CALLS, "reasoning", *SERVER_ITEMS)
ITEMS: Final = ("message", *CALLS, *RESULTS, "reasoning", *SERVER_ITEMS)
PARTS: Final = (
    "input_text",
    "input_image",
    "input_file",
    "input_audio",
    "output_text",
    "refusal",
    "summary_text",
)
MARKS: Final = frozenset(PARTS) - {"refusal", "input_audio"}
"""Content parts that only this format has."""
_CALL_FIELDS: Final = ("namespace", "caller", "async")
_MESSAGE: Final = ("type", "role", "content", "id", "status", "phase")
_CALL: Final = ("type", "call_id", "name", "arguments", "input", "id", "status", "parsed_arguments")


class Answer:
    """What a response said, item by item, as one assistant message."""

    def __init__(self) -> None:
        self._content = Content("openai")
        self._fields: dict[str, Any] = {}
        self._waiting: list[Fields] = []
        self._framed: list[tuple[int | str, dict[str, Any], Fields]] = []
        self.empty = True

    def add(self, item: Fields) -> None:
        check_values(item, "the item")
        self.empty = False
        kind = item.get("type", "message")
        if kind == "reasoning":
            self._waiting.append(item)
        elif kind in CALLS:
            self._call(item, kind)
        elif kind == "message":
            self._message(item)
        else:
            self._settle(None)
            self._content.stand_in(item)

    def _settle(self, call_id: str | None) -> None:
        """Reasoning belongs to the item that follows it."""
        for item in self._waiting:
            self._content.keep(item, call_id=call_id)
        self._waiting = []

    def _call(self, item: Fields, kind: str) -> None:
        """A custom tool's input is text, which stands in the arguments as "input"."""
        call_id = wanted(item, "call_id", kind)
        self._settle(call_id)
        name, given = wanted(item, "name", kind), item.get("arguments")
        if kind == "custom_tool_call":
            given = {"input": wanted(item, "input", kind)}
        self._content.call(call_id, name, arguments_text(given, name))
        own = {key: item[key] for key in _CALL_FIELDS if item.get(key)}
        self._framed.append((call_id, {"type": kind, **own}, item))
        self._fields |= rest_of(item, *_CALL, *_CALL_FIELDS)

    def _message(self, item: Fields) -> None:
        self._settle(None)
        first = len(self._content.parts)
        content = item.get("content")
        if isinstance(content, str):
            self._content.say(content)
        for part in content if is_items(content) else ():
            self._part(part)
        if len(self._content.parts) > first:
            own = {"phase": item["phase"]} if item.get("phase") else {}
            self._framed.append((first, {"type": "message", **own}, item))
        self._fields |= rest_of(item, *_MESSAGE)

    def _part(self, part: object) -> None:
        kind = part.get("type") if is_fields(part) else part
        if not is_fields(part) or kind not in ("output_text", "text", "refusal", "input_text"):
            raise Unreadable(
                f"content part {shown(kind)} of an assistant's message is not one of output_text,"
                " refusal"
            )
        if kind == "refusal":
            refusal = wanted(part, "refusal", "refusal part")
            self._content.parts.append({"type": "refusal", "refusal": refusal})
            return
        self._content.say(wanted(part, "text", f"{kind} part"))
        if part.get("annotations"):
            place = len(self._content.parts) - 1
            self._content.extra.setdefault("annotations", []).append(
                {"part": place, "annotations": part["annotations"]}
            )

    def message(self) -> ChatMessage:
        thought = bool(self._content.reasoning or self._waiting)
        self._settle(None)
        for place, own, item in self._framed:
            ids = {key: item[key] for key in ("id", "status") if thought and item.get(key)}
            if len(own) + len(ids) > 1 or own["type"] == "custom_tool_call":
                self._content.keep_at(place, own | ids)
        return self._content.message("assistant", **self._fields)


def to_chat(item: Fields) -> ChatMessage:
    """An item that is no model's: a message of the user, or the output of a call."""
    if item.get("type", "message") == "message":
        more = rest_of(item, "type", "role", "content", "id", "status")
        content = item.get("content")
        if not is_items(content):
            return {"role": item.get("role"), "content": content, **more}
        return _content(content).message(wanted(item, "role", "message")) | more
    return _result(item, item["type"])


def _result(item: Fields, kind: str) -> ChatMessage:
    call_id, output = wanted(item, "call_id", kind), item.get("output")
    if not (is_items(output) or isinstance(output, str)):
        raise Unreadable(
            f"the output of call {shown(call_id)} is {shown(output)}, not text or parts"
        )
    content = _content([output] if isinstance(output, str) else output)
    more = rest_of(item, "type", "call_id", "output", "id", "status")
    message = content.message("tool", tool_call_id=call_id, **more)
    return message | {"content": message["content"] or ""}


def _content(parts: Sequence[Any]) -> Content:
    content = Content("openai")
    for part in parts:
        if isinstance(part, str):
            part = {"type": "input_text", "text": part}
        if not is_fields(part) or part.get("type") not in PARTS:
            kind: Any = part.get("type") if is_fields(part) else part
            raise Unreadable(f"content part {shown(kind)} is not one of {', '.join(PARTS)}")
        _add(part, content)
    return content


def _add(part: Fields, content: Content) -> None:
    kind = part["type"]
    if kind in ("input_text", "output_text", "summary_text"):
        content.say(wanted(part, "text", f"{kind} part"))
    elif kind == "refusal":
        content.say(wanted(part, "refusal", "refusal part"))
    elif kind == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"]}
        if part.get("detail", "auto") != "auto":
            image["detail"] = part["detail"]
        content.parts.append({"type": "image_url", "image_url": image})
    elif kind == "input_file" and isinstance(part.get("file_data"), str):
        content.parts.append(_file(part))
    elif kind == "input_file" and isinstance(part.get("file_id"), str):
        content.parts.append({"type": "file", "file": {"file_id": part["file_id"]}})
    elif kind == "input_audio" and is_fields(part.get("input_audio")):
        content.parts.append(dict(part))
    else:  # an image by its file id, a file by its address
        content.stand_in({k: v for k, v in part.items() if k != "prompt_cache_breakpoint"})


def _file(part: Fields) -> dict[str, Any]:
    name, data = optional_text(part, "filename", "document"), part["file_data"]
    if not data.startswith("data:"):
        return data_part("application/pdf", data, name)
    return {"type": "file", "file": {"filename": name, "file_data": data}}
