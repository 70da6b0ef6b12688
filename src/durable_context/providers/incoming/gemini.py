"""Contents of Gemini's API, in the names of its Python package or of its JSON.

A response's object is kept as JSON text, or as the text itself where it is {"output": text}. A
call that came without an id gets one, and its response finds it by name and order.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, cast

from durable_context.providers.gemini_ids import made_id
from durable_context.providers.incoming.media import data_part
from durable_context.providers.incoming.reading import (
    ChatMessage,
    Content,
    Fields,
    Unreadable,
    arguments_text,
    dumped,
    is_fields,
    is_items,
    optional_text,
    rest_of,
    wanted,
)
from durable_context.providers.outgoing.gemini import response_object
from durable_context.providers.reasoning import GEMINI_DATA
from durable_context.showing import shown
from durable_context.stored_json import DEEPEST

PARTS: Final = ("text", "function_call", "function_response", *GEMINI_DATA)
ROLES: Final = {"user": "user", "model": "assistant", "function": "user", "tool": "user"}
_SNAKE: Final = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
    "thoughtSignature": "thought_signature",
    "videoMetadata": "video_metadata",
    "mediaResolution": "media_resolution",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
}
_OPEN: Final = ("args", "response")
"""Whose keys are the caller's own."""


class Reader:
    """Contents in order: a response is read with the calls before it in mind."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str]] = []
        self._called: dict[str, int] = {}

    def to_chat(self, content: Fields) -> list[ChatMessage]:
        """One content; responses give a tool message each, then the rest of it."""
        role = content.get("role") or "user"
        if not isinstance(role, str) or role not in ROLES:
            raise Unreadable(f"role {shown(role)} of a content is not one of {', '.join(ROLES)}")
        parts = [part for part in _parts(content.get("parts")) if not _is_empty(part)]
        more = rest_of(content, "role", "parts")
        if ROLES[role] == "assistant":
            return [self._model(parts) | more]
        responses = [part for part in parts if "function_response" in part]
        rest = [part for part in parts if "function_response" not in part]
        results = [self._response(part["function_response"]) for part in responses]
        return [*results, _content(rest).message("user") | more] if rest or not results else results

    def _model(self, parts: Sequence[Fields]) -> ChatMessage:
        self._waiting = []
        content = Content("gemini")
        thoughts: list[Fields] = []
        for part in parts:
            if _is_thought(part):
                thoughts.append(part)
                continue
            call_id = self._call(part, content) if "function_call" in part else None
            for thought in thoughts:
                content.keep(thought, call_id=call_id)
            thoughts = []
            if call_id is None:
                _add(part, content)
            elif frame := _frame(part):
                content.keep(frame, call_id=call_id)
        for thought in thoughts:
            content.keep(thought)
        return content.message("assistant")

    def _call(self, part: Fields, content: Content) -> str:
        call = _fields(part["function_call"], "function_call")
        name, args = call.get("name"), cast(object, call.get("args") or {})
        if not isinstance(name, str) or not name or not is_fields(args):
            raise Unreadable(f"a function_call needs a name and args, not {shown(dict(call))}")
        arguments = arguments_text(args, name)
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            number = self._called[name + arguments] = self._called.get(name + arguments, 0) + 1
            call_id = made_id(name, args, number)
        content.call(call_id, name, arguments)
        if more := rest_of(call, "id", "name", "args"):
            content.extra[call_id] = more
        self._waiting.append((call_id, name))
        return call_id

    def _response(self, value: object) -> ChatMessage:
        given = _fields(value, "function_response")
        call_id = self._answered(given)
        response = given.get("response")
        if response is not None and not is_fields(response):
            raise Unreadable(f"the response of {shown(given.get('name'))} is not an object")
        content = Content("gemini")
        for part in _parts(given.get("parts")):
            _add(part, content)
        text = _response_text(response or {}, optional_text(given, "name", "None"))
        if content.parts:
            content.parts.insert(0, {"type": "text", "text": text})
            message = content.message("tool")
        else:
            message = {"role": "tool", "content": text}
        more = rest_of(given, "id", "name", "response", "parts")
        return {**message, "tool_call_id": call_id, **more}

    def _answered(self, given: Fields) -> str:
        """The id of the call that a response is for."""
        name, call_id = given.get("name"), given.get("id")
        found = [one for one in self._waiting if call_id in (one[0], None) and one[1] == name]
        found = found or [one for one in self._waiting if one[0] == call_id]
        if found:
            self._waiting.remove(found[0])
            return found[0][0]
        if isinstance(call_id, str) and call_id:
            return call_id
        waiting = [one[1] for one in self._waiting]
        raise Unreadable(
            f"the function_response of {shown(name)} answers no call; those that wait are of"
            f" {shown(waiting)}"
        )


def plain(value: object, depth: int = 0) -> object:
    """A dumped content as JSON: bytes as base64, and names as the package writes them."""
    if depth > DEEPEST:
        raise Unreadable(f"a part is nested more than {DEEPEST} levels deep")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {
            (snake := _SNAKE.get(key, key)): item if snake in _OPEN else plain(item, depth + 1)
            for key, item in cast(Mapping[str, object], value).items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in cast(Sequence[object], value)]
    return value


def _parts(value: object) -> list[Fields]:
    if value is None:
        return []
    if not is_items(value):
        raise Unreadable(f"parts is {shown(value)}, not a list")
    return list(map(_part, value))


def _part(value: object) -> Fields:
    part = plain(dumped(value))
    if isinstance(part, str):
        part = {"text": part}
    if not is_fields(part) or sum(key in part for key in PARTS) > 1:
        raise Unreadable(f"part {shown(part)} does not hold one of {', '.join(PARTS)}")
    if any(key in part for key in PARTS):
        return part
    if part.keys() - {"thought_signature", "thought"}:
        raise Unreadable(f"part {shown(part)} does not hold one of {', '.join(PARTS)}")
    return {"text": "", **part}


def _fields(value: object, what: str) -> Fields:
    if is_fields(value):
        return value
    raise Unreadable(f"{what} is {shown(value)}, not an object")


def _is_thought(part: Fields) -> bool:
    """Reasoning, or a signature without anything that it signs."""
    if part.get("thought"):
        return "function_call" not in part
    return not any(part.get(key) for key in PARTS)


def _is_empty(part: Fields) -> bool:
    """Whether nothing is lost without it: an empty text that nothing signs."""
    return not part.get("text", "-") and not part.get("thought_signature")


def _frame(part: Fields) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in PARTS}


def _content(parts: Sequence[Fields]) -> Content:
    content = Content("gemini")
    for part in parts:
        _add(part, content)
    return content


def _add(part: Fields, content: Content) -> None:
    """A part that is neither a call nor a response."""
    before = len(content.parts)
    blob = part.get("inline_data")
    if _is_thought(part):
        content.keep(part)
        return
    if "text" in part:
        if part["text"]:
            content.say(wanted(part, "text", "part"))
    elif blob is not None:
        content.parts.append(_media(_fields(blob, "inline_data")))
    elif any(key in part for key in GEMINI_DATA):
        content.stand_in(part)
        return
    if len(content.parts) > before and (frame := _frame(part)):
        content.keep_at(before, frame)


def _media(blob: Fields) -> dict[str, Any]:
    data, media_type = blob.get("data"), blob.get("mime_type")
    if not isinstance(data, str) or not isinstance(media_type, str):
        raise Unreadable(f"inline_data needs data and a mime_type, not {shown(list(blob))}")
    name = blob.get("display_name")
    base64 = data.replace("-", "+").replace("_", "/")
    return data_part(media_type, base64, name if isinstance(name, str) else None)


def _response_text(response: Fields, name: str) -> str:
    output = response.get("output")
    if isinstance(output, str) and response_object(output) == response:
        return output
    return arguments_text(response, name)
