"""The history that processors work on: messages in OpenAI chat format in `ctx.state["history"]`.

What belongs together stays together: a tool exchange is an assistant's calls with their results, a
round begins with what the user said. System messages belong to no one and are never touched.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from durable_context.errors import ProcessorError
from durable_context.models import Message, Reasoning, ToolCall
from durable_context.processors.changing import with_field
from durable_context.processors.waiting import Waiting
from durable_context.showing import shown
from durable_context.tokens import REPLY_OVERHEAD, TokenCounter

if TYPE_CHECKING:
    from durable_context.processors.context import Context

HISTORY: Final = "history"
_SYSTEM: Final = ("system", "developer")
_SENT_ALONG: Final = ("reasoning_content", "reasoning", "refusal")
"""Texts besides the content that providers read, by their names."""


class Record(dict[str, Any]):
    """A message that is one of our own blocks. Processors leave it alone as they do system
    messages. The type says so, since any text can be made to look like a block.
    """


class Called(NamedTuple):
    """A tool call, as far as its result belongs to it."""

    id: str
    name: str


class ToolExchange(NamedTuple):
    """`history[start:stop]`: calls and results. `unanswered`: a result is missing."""

    start: int
    stop: int
    unanswered: bool


def read_history(ctx: "Context") -> list[Any]:
    """A list of the messages, empty where there are none. Raises ProcessorError if it holds
    something else.
    """
    history: object = ctx.state.get(HISTORY)
    if history is None:
        return []
    if not isinstance(history, list | tuple):
        raise ProcessorError(f"state['history'] is {history!r:.80}; it must be a list of messages")
    messages = list(cast("Sequence[Any]", history))
    for position, message in enumerate(messages):
        if not isinstance(field(message, "role"), str):
            raise ProcessorError(
                f"message {position} of the history is {message!r:.80}; it has no role"
            )
    return messages


def write_history(ctx: "Context", messages: Sequence[Any]) -> None:
    """Replace the messages: in the list that is there, where it is the context's own."""
    own = ctx.state.local_dict().get(HISTORY)
    if isinstance(own, list):
        own[:] = messages
    else:
        ctx.state.set(HISTORY, list(messages))


def rewrite_history(ctx: "Context", before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Replace the messages `before`, which were read some time ago, and keep what came since.

    False, and nothing changes, where the history does not begin with them any more.
    """
    now = read_history(ctx)
    if [id(message) for message in now[: len(before)]] != [id(message) for message in before]:
        return False
    write_history(ctx, [*after, *now[len(before) :]])
    return True


def field(message: Any, name: str) -> Any:
    """Of a dict or an object."""
    if isinstance(message, Mapping):
        return cast("Mapping[str, Any]", message).get(name)
    return getattr(message, name, None)


def role_of(message: Any) -> str:
    return cast(str, field(message, "role"))


def stays(message: Any) -> bool:
    """Whether no processor may touch it: a system message, or a block of ours."""
    return isinstance(message, Record) or role_of(message) in _SYSTEM


def calls_of(message: Any) -> list[ToolCall]:
    """Tool calls in OpenAI's nested form, or flat with `name` and `arguments`. Raises
    ProcessorError for calls that are no list and arguments that JSON cannot hold.
    """
    return [
        ToolCall(id=_id(call), name=_name(call), arguments=_json(call)) for call in _calls(message)
    ]


def called(message: Any) -> list[Called]:
    """The same without the arguments, which may be long."""
    return [Called(_id(call), _name(call)) for call in _calls(message)]


def _calls(message: Any) -> Sequence[Any]:
    calls = field(message, "tool_calls") if role_of(message) == "assistant" else None
    if calls and (isinstance(calls, str | bytes) or not isinstance(calls, Sequence)):
        raise ProcessorError(f"tool_calls={shown(calls)}; they must be a list")
    return cast("Sequence[Any]", calls or ())


def _id(call: Any) -> str:
    return written(field(call, "id") or "")


def _name(call: Any) -> str:
    return written(field(field(call, "function") or call, "name") or "unknown")


def _json(call: Any) -> str:
    arguments = field(field(call, "function") or call, "arguments")
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments or {}, ensure_ascii=False, separators=(",", ":"), default=str)
    except Exception as error:  # odd keys, cycles, too deep, an object's own error
        raise ProcessorError(
            f"the arguments of {_name(call)!r:.80} are {shown(arguments)}; they must be JSON"
        ) from error


def text_of(message: Any) -> str:
    """What it says, text parts joined by newlines."""
    content = field(message, "content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return written(content)
    texts = (_part(part).get("text") for part in cast("Sequence[Any]", content))
    return "\n".join(text for text in texts if isinstance(text, str))


def written(value: object) -> str:
    """What `str` makes of it. Raises ProcessorError where it makes nothing."""
    try:
        return str(value)
    except Exception as error:  # nested too deeply, too many digits, an object's own error
        raise ProcessorError(f"{shown(value)} cannot be written as text") from error


def _part(part: Any) -> Mapping[str, Any]:
    """A content part, which some give as a text or an object."""
    if isinstance(part, Mapping):
        return cast("Mapping[str, Any]", part)
    if isinstance(part, str):
        return {"type": "text", "text": part}
    known = {name: field(part, name) for name in ("type", "text")}
    return {name: value for name, value in known.items() if value is not None}


def with_content(message: Any, content: Any) -> Any:
    """A copy of the message with another content. The message itself stays as it is. Raises
    ProcessorError where it cannot be copied with it.
    """
    return with_field(message, "content", content)


def tool_exchanges(history: Sequence[Any]) -> list[ToolExchange]:
    """All of them, in order."""
    found: list[ToolExchange] = []
    position = 0
    while position < len(history):
        calls = called(history[position])
        if calls:
            found.append(_exchange(history, position, Waiting(call.id for call in calls)))
            position = found[-1].stop
        else:
            position += 1
    return found


def _exchange(history: Sequence[Any], start: int, waiting: Waiting) -> ToolExchange:
    stop = start + 1
    for position in range(start + 1, len(history)):
        if role_of(history[position]) == "tool":
            if not waiting.answer(written(field(history[position], "tool_call_id") or "")):
                break
            stop = position + 1
        elif not stays(history[position]):
            break
    return ToolExchange(start, stop, bool(waiting))


def unanswered(history: Sequence[Any]) -> set[int]:
    """Positions of exchanges that lack a result: they stay until it comes."""
    return {
        position
        for exchange in tool_exchanges(history)
        if exchange.unanswered
        for position in range(exchange.start, exchange.stop)
    }


def in_flight(history: Sequence[Any]) -> int:
    """Where the chain of exchanges begins that the model has yet to answer, or the history's end.

    It is what the history ends in: calls and results, with nothing said after them.
    """
    begin = len(history)
    for exchange in reversed(tool_exchanges(history)):
        if any(not stays(message) for message in history[exchange.stop : begin]):
            break
        begin = exchange.start
    return begin


def rounds(history: Sequence[Any]) -> list[range]:
    """A round is what the user said, in one message or several, and all up to what he says next.

    What stands before the first is a round, too. System messages are in the round they stand in,
    and the last round is the current one, whether it is complete or not.
    """
    bounds = [*_round_starts(history), len(history)]
    if bounds[0] != 0:
        bounds.insert(0, 0)
    return [range(start, stop) for start, stop in pairwise(bounds)]


def _round_starts(history: Sequence[Any]) -> Iterator[int]:
    speaking = False
    for position, message in enumerate(history):
        if stays(message):
            continue
        says = role_of(message) == "user"
        if says and not speaking:
            yield position
        speaking = says


def count_message(message: Any, counter: TokenCounter) -> int:
    """Tokens of a message with its overhead; tool calls, parts, name and reasoning included. Raises
    ProcessorError for what cannot be sent.
    """
    name, call_id = field(message, "name"), field(message, "tool_call_id")
    counted = Message.model_construct(
        role=cast(Any, role_of(message)),
        content=_countable(field(message, "content")),
        name=None if name is None else written(name),
        tool_calls=tuple(calls_of(message)),
        tool_call_id=None if call_id is None else written(call_id),
        reasoning=tuple(_reasoning(message)),
    )
    texts = (field(message, name) for name in _SENT_ALONG)
    also = sum(counter.count(text) for text in texts if isinstance(text, str))
    try:
        return counter.count_message(counted) + also
    except (TypeError, ValueError, RecursionError) as error:  # parts that are no JSON
        raise ProcessorError(f"{shown(message)} cannot be counted: {error}") from error


def _countable(content: Any) -> Any:
    if isinstance(content, list | tuple):
        return tuple(map(_part, cast("Sequence[Any]", content)))
    return content if content is None or isinstance(content, str) else written(content)


def _reasoning(message: Any) -> Iterator[Reasoning]:
    """What `Message.reasoning` holds, or a dict of it."""
    given = field(message, "reasoning")
    for each in cast("Sequence[Any]", given if isinstance(given, list | tuple) else ()):
        yield Reasoning.model_construct(block=field(each, "block") or each)


def count_history(messages: Sequence[Any], counter: TokenCounter) -> int:
    """Tokens of a request of these messages."""
    return REPLY_OVERHEAD + sum(count_message(message, counter) for message in messages)
