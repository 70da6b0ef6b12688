"""What became of a prompt's messages in a pipeline: kept, changed, left out or added."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from durable_context.errors import InvalidTurn, ProcessorError
from durable_context.models import Message
from durable_context.processors.history import Record, field, role_of, stays
from durable_context.text import clean, clean_values
from durable_context.turns.messages import parse_message
from durable_context.turns.pairing import with_results
from durable_context.turns.sendable import sendable, to_openai


class Kept(NamedTuple):
    """A message as it is to be sent. `origin` is its position before, None if it was added."""

    message: dict[str, Any]
    origin: int | None
    changed: bool


def traced(
    originals: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]], after: Sequence[Any]
) -> list[Kept]:
    """What is left, in order. `given` are the copies of the originals that processors had.

    Raises ProcessorError if our own blocks are not as they were, InvalidTurn if it cannot be sent.
    """
    origins = _origins(given, after)
    kept = [
        _kept(originals, message, origin) for message, origin in zip(after, origins, strict=True)
    ]
    _check_records(given, kept)
    if any(one.changed for one in kept) or len(kept) != len(originals):
        _check_sendable(kept)
    return kept


def as_message(message: Mapping[str, Any], position: int = 0) -> Message:
    """One that can be counted and paired; a system message counts as a user's does."""
    if stays(message):
        return Message(role="user", content=message["content"])
    return parse_message(message, position)


def _origins(given: Sequence[dict[str, Any]], after: Sequence[Any]) -> list[int | None]:
    """Where each comes from: the very object, or else the nearest before the next one of the same
    role and calls. Processors leave out the oldest, so it is looked for from the end.
    """
    positions = {id(message): position for position, message in enumerate(given)}
    found = [positions.pop(id(message), None) for message in after]
    free = sorted(positions.values(), reverse=True)
    following = len(given)
    for place in range(len(after) - 1, -1, -1):
        origin = found[place]
        if origin is None:
            like = _shape(after[place])
            earlier = max((o for o in found[:place] if o is not None), default=-1)
            origin = next(
                (n for n in free if earlier < n < following and _shape(given[n]) == like), None
            )
            if origin is not None:
                free.remove(origin)
                found[place] = origin
        following = following if origin is None else origin
    return found


def _shape(message: Any) -> tuple[str, Any, list[Any]]:
    calls = [field(call, "id") for call in field(message, "tool_calls") or ()]
    return role_of(message), field(message, "tool_call_id"), calls


def _kept(originals: Sequence[dict[str, Any]], message: Any, origin: int | None) -> Kept:
    if origin is not None and message == originals[origin]:
        return Kept(originals[origin], origin, changed=False)
    return Kept(_sent(message), origin, changed=True)


def _sent(message: Any) -> dict[str, Any]:
    """What processors wrote is text like any other: it cannot pass for a block of ours."""
    if role_of(message) in ("system", "developer"):
        content = field(message, "content")
        if not isinstance(content, str | list):
            raise InvalidTurn(f"a system message says {content!r:.80}; it must be text or parts")
        return {"role": role_of(message), "content": clean_values(cast("object", content))}
    if isinstance(message, Record):
        return dict(message)
    return to_openai(sendable(parse_message(message, 0)))


def _check_records(given: Sequence[dict[str, Any]], kept: Sequence[Kept]) -> None:
    whole = {one.origin for one in kept if not one.changed}
    for position, message in enumerate(given):
        if isinstance(message, Record) and position not in whole:
            shown = clean(str(message["content"]))[:60]
            raise ProcessorError(
                f"a processor changed or left out message {position} of the prompt, {shown!r}: what"
                " stands for earlier turns must stay as it is"
            )


def _check_sendable(kept: Sequence[Kept]) -> None:
    if not kept:
        raise InvalidTurn("nothing is left of it")
    with_results(list(_messages(kept)), "complete")


def _messages(kept: Sequence[Kept]) -> Iterator[Message]:
    for position, one in enumerate(kept):
        yield as_message(one.message, position)
