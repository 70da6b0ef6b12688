"""One conversation object to a transcript: its name, instructions, tools, times and messages."""

from datetime import UTC, datetime
from typing import Any

from durable_context.transcripts import anthropic, openai
from durable_context.transcripts.model import (
    JsonObject,
    Located,
    Transcript,
    TranscriptTurn,
    is_list,
    is_object,
    shown,
)
from durable_context.transcripts.splitting import TimedMessage, split_turns

_NAMES = ("conversation_id", "trajectory_id", "id", "name")
_TIMES = ("occurred_at", "timestamp", "created_at")
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"


def read_conversation(found: Located, default_name: str) -> Transcript:
    """`found` is an object with located "messages" or "turns"."""
    name = _name(found, default_name)
    system = _system(found)
    if "messages" in found.value:
        turns = split_turns(_messages(found), system)
    else:
        turns = tuple(_question_and_answer(turn, system) for turn in found.value["turns"])
    if not turns:
        raise found.error("no message of a user or an assistant")
    return Transcript(name=name, system=turns[0].system, tools=_tools(found), turns=turns)


def _name(found: Located, default: str) -> str:
    for key in _NAMES:
        value = found.value.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value)
        if value is not None:
            raise found.error(f'"{key}" is {shown(value)}; an id is text or a number')
    return default


def _messages(found: Located) -> list[TimedMessage]:
    located: list[Located] = found.value["messages"]
    for message in located:
        if not is_object(message.value):
            raise message.error(f'{shown(message.value)} is not a message: an object with a "role"')
    foreign = "system" in found.value or any(anthropic.speaks(m.value) for m in located)
    read = anthropic.to_openai if foreign else openai.checked
    return [
        TimedMessage(Located(converted, message.place), _occurred_at(message))
        for message in located
        for converted in read(Located(_without(message.value, *_TIMES), message.place))
    ]


def _question_and_answer(found: Located, system: str | None) -> TranscriptTurn:
    """A turn of the form {user, assistant, timestamp}, where either side may be absent."""
    turn: Any = found.value
    said = {role: turn.get(role) for role in ("user", "assistant")} if is_object(turn) else {}
    messages = [
        message
        for role, content in said.items()
        if content is not None
        for message in openai.checked(Located({"role": role, "content": content}, found.place))
    ]
    if not messages:
        raise found.error('a turn is an object with "user" or "assistant" or both')
    return TranscriptTurn(messages=tuple(messages), occurred_at=_occurred_at(found), system=system)


def _system(found: Located) -> str | None:
    value: Any = found.value.get("system")
    if value is None or isinstance(value, str):
        return value or None
    return anthropic.text_of(value, found)


def _tools(found: Located) -> tuple[JsonObject, ...] | None:
    value: Any = found.value.get("tools")
    if value is None:
        return None
    if not is_list(value) or not all(is_object(tool) for tool in value):
        raise found.error(f'"tools" is {shown(value)}; it must be a list of objects')
    return tuple(anthropic.tool_to_openai(tool) for tool in value) or None


def _occurred_at(found: Located) -> datetime | None:
    for key in _TIMES:
        if (value := found.value.get(key)) is not None:
            return _time(value, key, found)
    return None


def _time(value: Any, key: str, found: Located) -> datetime:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return _zoned(_parsed_time(value))
    except (ValueError, OverflowError, OSError):
        pass
    raise found.error(
        f'"{key}" is {shown(value)}; a time is in ISO 8601, in seconds since 1970, or like '
        "'1:56 pm on 8 May, 2023'"
    )


def _parsed_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.strptime(text, _LOCOMO_TIME)


def _zoned(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _without(value: JsonObject, *keys: str) -> JsonObject:
    return {key: item for key, item in value.items() if key not in keys}
