"""One conversation object to a transcript: its name, instructions, tools, times and messages."""

from datetime import UTC, datetime
from typing import Any

from durable_context.providers.incoming.anthropic import text_of
from durable_context.providers.incoming.reading import Unreadable
from durable_context.providers.incoming.shapes import UnreadableAt, chat_messages
from durable_context.providers.incoming.tools import tools_to_chat
from durable_context.showing import shown
from durable_context.transcripts import openai
from durable_context.transcripts.model import (
    JsonObject,
    Located,
    Transcript,
    TranscriptTurn,
    is_list,
    is_object,
)
from durable_context.transcripts.splitting import TimedMessage, split_turns

_NAMES = ("conversation_id", "trajectory_id", "id", "name")
_TIMES = ("occurred_at", "timestamp", "created_at")
_SYSTEM = ("system", "instructions", "system_instruction", "systemInstruction")
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
    values = [_without(message.value, *_TIMES) for message in located]
    try:
        placed = chat_messages(values, anthropic="system" in found.value)
    except UnreadableAt as error:
        raise located[error.position].error(str(error)) from None
    return [
        TimedMessage(Located(checked, located[position].place), _occurred_at(located[position]))
        for position, message in placed
        for checked in openai.checked(Located(message, located[position].place))
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
    value: Any = next((found.value[key] for key in _SYSTEM if found.value.get(key)), None)
    if value is None or isinstance(value, str):
        return value
    if is_object(value):  # a content of Gemini's
        value = value.get("parts")
    if not is_list(value):
        raise found.error(f'"system" is {shown(value)}; it must be text or a list of text blocks')
    # Blocks of Anthropic's say that they are text, Gemini's parts do not.
    blocks = [{"type": "text", **block} if is_object(block) else block for block in value]
    try:
        return text_of(blocks) or None
    except Unreadable as error:
        raise found.error(str(error)) from None


def _tools(found: Located) -> tuple[JsonObject, ...] | None:
    value: Any = found.value.get("tools")
    if value is None:
        return None
    if not is_list(value) or not all(is_object(tool) for tool in value):
        raise found.error(f'"tools" is {shown(value)}; it must be a list of objects')
    return tuple(tools_to_chat(value)) or None


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
