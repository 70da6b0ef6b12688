"""Messages on their way in: from any format to `Message`, and what makes them a turn."""

from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from pydantic import ValidationError

from durable_context import stored_json
from durable_context.errors import InvalidTurn
from durable_context.models import Message, Outcome, Reasoning, Role, ToolCall
from durable_context.prompts.rendering import RECORD_TAG, is_record
from durable_context.providers.incoming.shapes import UnreadableAt, chat_messages
from durable_context.showing import shown
from durable_context.turns.pairing import with_results
from durable_context.turns.sendable import sendable

PART_TYPES = ("text", "image_url", "input_audio", "file", "refusal")
"""Content parts of the OpenAI chat format, which prompts are made in."""

IS_ERROR = Reasoning(provider="anthropic", block={"type": "tool_result", "is_error": True})
"""On a tool's result: the tool failed."""

_KNOWN = {
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "synthetic",
    "reasoning",
    "extra",
}


def parse_message(value: object, position: int) -> Message:
    """A `Message` from one in OpenAI chat format: a mapping, or an SDK object with `model_dump`.

    Fields the format knows nothing of are kept in `extra` when they hold something.
    """
    if isinstance(value, Message):
        stored_json.check_json(value.model_dump(exclude_defaults=True), f"message {position}")
        _check_pointer(value.artifact, position)
        for part in value.content if isinstance(value.content, tuple) else ():
            _check_pointer(part.get("artifact"), position)
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        value = dump(exclude_none=True)
    if not isinstance(value, Mapping):
        raise InvalidTurn(
            f"message {position} is {shown(value)}, not a Message or a dict in the format of"
            " OpenAI, Anthropic or Gemini"
        )
    fields = cast(Mapping[str, Any], value)
    stored_json.check_json(dict(fields), f"message {position}")
    extra = {
        key: item for key, item in fields.items() if key not in _KNOWN and item not in (None, [])
    }
    role = _role(fields.get("role"), position)
    reasoning = _reasoning(fields["reasoning"], extra) if "reasoning" in fields else ()
    if extra and role == "tool" and extra.get("is_error") is True:
        del extra["is_error"]
        reasoning += (IS_ERROR,)
    return Message(
        role=role,
        content=_content(_said(fields), position),
        name=_optional_text(fields.get("name"), "name", position),
        tool_calls=_tool_calls(fields.get("tool_calls"), position),
        tool_call_id=_optional_text(fields.get("tool_call_id"), "tool_call_id", position),
        synthetic=bool(fields.get("synthetic", False)),
        reasoning=reasoning,
        extra=_extra(fields.get("extra"), position) | extra,
    )


def _reasoning(value: object, extra: dict[str, Any]) -> tuple[Reasoning, ...]:
    """Reasoning as `Message` dumps it. What others call so is a field like any other."""
    if isinstance(value, list | tuple):
        try:
            blocks = cast(Sequence[object], value)
            return tuple(Reasoning.model_validate(block) for block in blocks)
        except ValidationError:
            pass
    if value not in (None, []):
        extra["reasoning"] = value
    return ()


def _said(fields: Mapping[str, Any]) -> object:
    """A refusal is what an assistant said instead of content."""
    content = fields.get("content")
    return fields.get("refusal") if content is None else content


def call_text(call: ToolCall) -> str:
    """A tool call as text."""
    return f"{call.name}({call.arguments})"


def characters(messages: Sequence[Message]) -> int:
    """About how much there is to work on."""
    return sum(
        _length(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        for message in messages
    )


def _length(content: object) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, Mapping):
        return sum(map(_length, cast(Mapping[str, object], content).values()))
    if isinstance(content, list | tuple):
        return sum(map(_length, cast(Sequence[object], content)))
    return 0


def turn_messages(values: Sequence[object], outcome: Outcome) -> tuple[Message, ...]:
    """The messages of one turn, checked: every tool call has its result right after it.

    An interrupted turn gets a synthetic result for each call that has none. Raises InvalidTurn,
    IncompleteToolExchange.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"messages must be a sequence of messages, not {shown(values)}")
    if not values:
        raise InvalidTurn("a turn needs at least one message, got none")
    positions, parsed = _parsed(values)
    for position, message in zip(positions, parsed, strict=True):
        if is_record(message.content) and message.role == "user":
            raise InvalidTurn(
                f"message {position} is a <{RECORD_TAG}> block that prepare() made; record_turn"
                " takes the new exchange only"
            )
    return tuple(with_results(parsed, outcome, positions))


def _parsed(values: Sequence[object]) -> tuple[list[int], list[Message]]:
    """Messages of any format, and the positions they were given at."""
    try:
        placed = chat_messages(values)
    except UnreadableAt as error:
        raise InvalidTurn(f"message {error.position}: {error}") from None
    positions = [position for position, _ in placed]
    return positions, [parse_message(value, position) for position, value in placed]


def user_message_of(value: object) -> Message | None:
    """The new user message, sendable; None while a long run goes on."""
    if value is None:
        return None
    if isinstance(value, str):
        value = Message(role="user", content=value)
    _, parsed = _parsed([value])
    message = sendable(parsed[0])
    if len(parsed) > 1 or message.role != "user":
        raise InvalidTurn(
            f"the user message has role {message.role!r}; exchanges that are not recorded yet go"
            " into pending="
        )
    if not message.content:
        raise InvalidTurn("the user message is empty; pass None to go on without one")
    return message


def exchanges(values: Sequence[object]) -> tuple[Message, ...]:
    """Complete tool exchanges that are not recorded yet, sendable, as `prepare(pending=)` takes
    them.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"pending must be a sequence of messages, not {shown(values)}")
    positions, parsed = _parsed(values)
    for position, message in zip(positions, parsed, strict=True):
        if message.role == "user":
            raise InvalidTurn(
                f"pending message {position} has role 'user'; allowed are assistant and tool"
            )
    return tuple(sendable(message) for message in with_results(parsed, "complete", positions))


def _role(role: object, position: int) -> Role:
    if role in ("system", "developer"):
        raise InvalidTurn(
            f"message {position} has role {role!r}; record_turn takes the new exchange only, pass"
            " instructions to prepare() in Budget(instructions=...)"
        )
    if role not in get_args(Role):
        raise InvalidTurn(
            f"message {position} has role {role!r}; allowed are {', '.join(get_args(Role))}"
        )
    return cast(Role, role)


def _content(content: object, position: int) -> str | tuple[dict[str, Any], ...] | None:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = cast(Sequence[object], content)
        return tuple(_part(part, position) for part in parts)
    raise InvalidTurn(
        f"message {position} has content {shown(content)}; allowed are text, a list of content"
        " parts, or None"
    )


def _part(part: object, position: int) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = cast(Mapping[str, Any], part).get("type") if isinstance(part, Mapping) else None
    if kind in PART_TYPES:
        fields = dict(cast(Mapping[str, Any], part))
        _check_pointer(fields.get("artifact"), position)
        return fields
    raise InvalidTurn(
        f"message {position} has a content part {shown(cast(object, part))}; a part is text or a"
        f" dict whose 'type' is one of {', '.join(PART_TYPES)}, or of Anthropic's or the Responses"
        " format"
    )


def _check_pointer(pointer: object, position: int) -> None:
    """A handle counts only where recording put it."""
    if pointer is not None:
        raise InvalidTurn(
            f"message {position} points to artifact {shown(pointer)}; record what it stands for"
            " (load_artifact returns it), pointers are made here"
        )


def _optional_text(value: object, field: str, position: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InvalidTurn(f"message {position} has {field}={shown(value)}; it must be text")


def _extra(value: object, position: int) -> dict[str, Any]:
    if value is None or isinstance(value, dict):
        return dict(cast(dict[str, Any], value or {}))
    raise InvalidTurn(f"message {position} has extra={shown(value)}; it must be a dict")


def _tool_calls(value: object, position: int) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise InvalidTurn(
            f"message {position} has tool_calls={shown(cast(object, value))}; it must be a list"
        )
    return tuple(_tool_call(call, position) for call in cast(Sequence[object], value))


def _tool_call(value: object, position: int) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    call = cast(Mapping[str, Any], value if isinstance(value, Mapping) else {})
    inner = call.get("function", call)
    function = cast(Mapping[str, Any], inner if isinstance(inner, Mapping) else {})
    name, call_id = function.get("name"), call.get("id")
    if not (isinstance(name, str) and name and isinstance(call_id, str) and call_id):
        raise InvalidTurn(
            f"message {position} has a tool call {shown(cast(object, value), 120)}; it needs an"
            " 'id' and a 'function' with 'name' and 'arguments'"
        )
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = stored_json.dumps({} if arguments is None else arguments)
    return ToolCall(id=call_id, name=name, arguments=arguments)
