"""The messages of a run with what they cost, and those that an offload leaves alone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from durable_context import stored_json
from durable_context.errors import InvalidArgument, InvalidTurn
from durable_context.processors.history import count_message, stays, tool_exchanges
from durable_context.showing import shown
from durable_context.tokens import REPLY_OVERHEAD, TokenCounter

ROLES: Final = ("system", "developer", "user", "assistant", "tool")


class Sized(NamedTuple):
    """`position` is that in the list that was given."""

    position: int
    message: dict[str, Any]
    tokens: int


def checked_messages(messages: object) -> list[dict[str, Any]]:
    """Raises InvalidArgument, which names the position and quotes nothing that was said."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InvalidArgument(
            f"messages are a {_type_of(cast(object, messages))}; they must be a list"
        )
    return [_checked(value, n) for n, value in enumerate(cast("Sequence[object]", messages))]


def _checked(value: object, position: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(f"message {position} is a {type(value).__name__}; it must be a dict")
    message = cast("dict[str, Any]", value)
    if message.get("role") not in ROLES:
        raise InvalidArgument(
            f"message {position} has role {shown(message.get('role'), 40)}; allowed are"
            f" {', '.join(ROLES)}"
        )
    _check_content(message.get("content"), position)
    _check_dicts(message.get("tool_calls"), position, "tool_calls")
    try:
        stored_json.check_json(message, f"message {position}")
    except InvalidTurn as error:
        raise InvalidArgument(
            f"message {position} cannot be stored as JSON: allowed are text, finite numbers,"
            f" booleans, None, and lists and dicts of these, {stored_json.DEEPEST} levels deep"
        ) from error
    return message


def _check_content(content: object, position: int) -> None:
    if content is not None and not isinstance(content, str):
        _check_dicts(content, position, "content")


def _check_dicts(value: object, position: int, name: str) -> None:
    if value is None:
        return
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, dict) for item in items):
        text = "text, None or " if name == "content" else "None or "
        kind = _type_of(cast(object, value))
        raise InvalidArgument(
            f"message {position} has {name} of type {kind}; allowed is {text}a list of dicts"
        )


def _type_of(value: object) -> str:
    return type(value).__name__


def sized(messages: Iterable[dict[str, Any]], counter: TokenCounter) -> list[Sized]:
    """CPU only."""
    return [
        Sized(position, message, count_message(message, counter))
        for position, message in enumerate(messages)
    ]


def tokens_of(history: Iterable[Sized]) -> int:
    return sum(one.tokens for one in history)


def request_tokens(history: Iterable[Sized]) -> int:
    """Of a request of these messages."""
    return REPLY_OVERHEAD + tokens_of(history)


def positions_of(history: Iterable[Sized]) -> tuple[int, ...]:
    return tuple(one.position for one in history)


def recent_start(history: Sequence[Sized], count: int) -> int:
    """Where the newest `count` messages begin, system messages not counted: earlier where that
    would be inside a tool exchange.
    """
    spoken = [place for place, one in enumerate(history) if not stays(one.message)]
    if not spoken:
        return len(history)
    start = spoken[-count:][0]
    for exchange in tool_exchanges([one.message for one in history]):
        if exchange.start < start < exchange.stop:
            return exchange.start
    return start
