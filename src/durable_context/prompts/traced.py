"""What became of a prompt's messages in a pipeline: kept, changed, moved, left out or added."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from durable_context.artifacts.media import is_stored_part, part_reference
from durable_context.errors import IncompleteToolExchange, InvalidTurn, ProcessorError
from durable_context.models import Message
from durable_context.processors.history import (
    Record,
    calls_of,
    field,
    role_of,
    stays,
    with_content,
)
from durable_context.showing import shown
from durable_context.text import clean
from durable_context.turns.messages import parse_message
from durable_context.turns.pairing import with_results
from durable_context.turns.sendable import sendable, to_openai

_ROLES: Final = ("system", "developer", "user", "assistant", "tool")


class Given(dict[str, Any]):
    """A message as processors get it. Copies of it know where it stood."""

    def __init__(self, message: Mapping[str, Any], origin: int) -> None:
        super().__init__(message)
        self.origin = origin


class Kept(NamedTuple):
    """A message as it is to be sent. `origin` is its position before, None if it was added; `sure`,
    unless that is told from its role and place alone.
    """

    message: dict[str, Any]
    origin: int | None
    changed: bool
    sure: bool = True


def traced(
    originals: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]], after: Sequence[Any]
) -> list[Kept]:
    """What is left, in order. `given` are the copies of the originals that processors had.

    Raises ProcessorError if our own blocks are not as they were, InvalidTurn if it cannot be sent.
    """
    said = [_referring(message) for message in after]
    known = _known(originals, given, after, said)
    origins = _likely(given, after, known)
    kept = [
        _kept(originals, message, position, origin, sure=known[position] is not None)
        for position, (message, origin) in enumerate(zip(said, origins, strict=True))
    ]
    _check_records(given, after, kept)
    if not is_untouched(kept, originals):
        _check_sendable(kept)
    return kept


def is_untouched(kept: Sequence[Kept], originals: Sequence[object]) -> bool:
    """Whether all is as it was, in the same order."""
    return len(kept) == len(originals) and all(
        one.origin == position and not one.changed for position, one in enumerate(kept)
    )


def as_message(message: Mapping[str, Any], position: int = 0) -> Message:
    """One that can be counted and paired; a system message counts as a user's does."""
    if stays(message):
        return Message(role="user", content=message["content"])
    return parse_message(message, position)


def _referring(message: Any) -> Any:
    """With the text that stands for each image or file in its place again."""
    content: object = field(message, "content")
    if not isinstance(content, list):
        return message
    return with_content(message, [_reference(part) for part in cast("list[Any]", content)])


def _reference(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    stored = cast("Mapping[str, Any]", part)
    return {"type": "text", "text": part_reference(stored)} if is_stored_part(stored) else stored


def _known(
    originals: Sequence[dict[str, Any]],
    given: Sequence[dict[str, Any]],
    after: Sequence[Any],
    said: Sequence[Any],
) -> list[int | None]:
    """Where each certainly comes from: the very object, a copy that knows, or an equal message."""
    places = {id(message): position for position, message in enumerate(given)}
    free = dict.fromkeys(range(len(given)))
    found: list[int | None] = []
    for message in after:
        origin = places.get(id(message), message.origin if isinstance(message, Given) else None)
        found.append(origin if origin in free else None)
        free.pop(found[-1], None)  # type: ignore[arg-type]
    # From the end, for processors leave out the oldest and may add what is said again later.
    for place in range(len(said) - 1, -1, -1):
        if found[place] is None:
            equal = (n for n in reversed(free) if originals[n] == said[place])
            found[place] = next(equal, None)
            free.pop(found[place], None)  # type: ignore[arg-type]
    return found


def _likely(
    given: Sequence[dict[str, Any]], after: Sequence[Any], known: Sequence[int | None]
) -> list[int | None]:
    """The others: the last one of the same role and calls between those beside it. Processors leave
    out the oldest.
    """
    found = list(known)
    taken = {origin for origin in known if origin is not None}
    following = len(given)
    for place in range(len(after) - 1, -1, -1):
        if found[place] is None:
            before = next((o for o in reversed(found[:place]) if o is not None), -1)
            like = _shape(after[place])
            between = range(following - 1, before, -1)
            alike = (n for n in between if n not in taken and _shape(given[n]) == like)
            found[place] = next(alike, None)
        origin = found[place]
        if origin is not None:
            taken.add(origin)
            following = origin
    return found


def _shape(message: Any) -> tuple[str, Any, list[Any]]:
    calls: object = field(message, "tool_calls")
    listed = cast("Sequence[Any]", calls) if isinstance(calls, list | tuple) else ()
    return role_of(message), field(message, "tool_call_id"), [field(call, "id") for call in listed]


def _kept(
    originals: Sequence[dict[str, Any]],
    message: Any,
    position: int,
    origin: int | None,
    *,
    sure: bool,
) -> Kept:
    if origin is not None and message == originals[origin]:
        return Kept(originals[origin], origin, changed=False)
    sent = _sent(message, position)
    return Kept(sent, origin, changed=True, sure=sure or bool(calls_of(sent)))


def _sent(message: Any, position: int) -> dict[str, Any]:
    """What processors wrote is text like any other: it cannot pass for a block of ours."""
    if isinstance(message, Record):
        return dict(message)
    if role_of(message) not in _ROLES:
        raise InvalidTurn(
            f"message {position} has role {role_of(message)!r:.80}; allowed are {', '.join(_ROLES)}"
        )
    if stays(message):
        return {"role": "system", "content": clean(_system_text(message, position))}
    return to_openai(sendable(parse_message(message, position)))


def _system_text(message: Any, position: int) -> str:
    content: object = field(message, "content")
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()
    texts = [field(part, "text") if field(part, "type") == "text" else None for part in parts]
    if not texts or not all(isinstance(text, str) for text in texts):
        what = shown(cast(object, content))
        raise InvalidTurn(
            f"message {position} is of the system and says {what}; it must be text or text parts"
        )
    return "\n".join(cast("list[str]", texts))


def _check_records(
    given: Sequence[dict[str, Any]], after: Sequence[Any], kept: Sequence[Kept]
) -> None:
    """Each is there once, as it was, with nothing moved past it."""
    places = {one.origin: place for place, one in enumerate(kept) if not one.changed}
    for origin, message in enumerate(given):
        place = places.get(origin)
        if isinstance(message, Record) and (place is None or _passed(kept, place, origin)):
            what = clean(str(message["content"]))[:60]
            raise ProcessorError(
                f"a processor changed, moved or left out message {origin} of the prompt, {what!r}:"
                " what stands for earlier turns, and the task, must stay as they are"
            )
    for message, one in zip(after, kept, strict=True):
        if isinstance(message, Record) and one.origin is None:
            raise ProcessorError("a processor added a message of ours a second time")


def _passed(kept: Sequence[Kept], place: int, origin: int) -> bool:
    return any(
        one.origin is not None and (one.origin < origin) != (other < place)
        for other, one in enumerate(kept)
        if other != place
    )


def _check_sendable(kept: Sequence[Kept]) -> None:
    if not kept:
        raise InvalidTurn("nothing is left of it")
    try:
        with_results(list(_messages(kept)), "complete")
    except IncompleteToolExchange as error:
        raise InvalidTurn(f"tool calls {list(error.call_ids)!r:.200} have no result") from error


def _messages(kept: Sequence[Kept]) -> Iterator[Message]:
    for position, one in enumerate(kept):
        yield as_message(one.message, position)
