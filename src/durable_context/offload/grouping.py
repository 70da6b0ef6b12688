"""Which messages are summarized together: neighbours, whole tool exchanges, nothing across a fence.

A fence is a message that was said in between and stays, so that what is told keeps its order.
System messages are none: what they say holds wherever they stand.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from durable_context.offload.messages import Sized, tokens_of
from durable_context.offload.summary_block import parts_of
from durable_context.processors.history import stays, tool_exchanges


def current_request(history: Sequence[Sized]) -> set[int]:
    """Positions of what the user said last, in one message or several."""
    found: set[int] = set()
    for one in reversed(history):
        is_summary = bool(parts_of(one.message.get("content")))
        if one.message["role"] == "user" and not is_summary:
            found.add(one.position)
        elif found and (is_summary or not stays(one.message)):
            break
    return found


def groups(
    history: Sequence[Sized], free: set[int], fences: Sequence[int], threshold: int | None
) -> Iterator[list[Sized]]:
    """In order, each as large as the threshold allows; a larger unit is one by itself."""
    group: list[Sized] = []
    tokens = 0
    for unit in _units(history, free):
        size = tokens_of(unit)
        full = threshold and tokens + size > threshold
        if group and (full or parted(group[-1].position, unit[0].position, fences)):
            yield group
            group, tokens = [], 0
        group.extend(unit)
        tokens += size
    if group:
        yield group


def parted(before: int, after: int, fences: Sequence[int]) -> bool:
    """Whether one of the fences, which are sorted, stands between."""
    place = bisect_right(fences, before)
    return place < len(fences) and fences[place] < after


def _units(history: Sequence[Sized], free: set[int]) -> Iterator[list[Sized]]:
    """What goes together or not at all: a tool exchange, or a message by itself."""
    place = 0
    for exchange in [*tool_exchanges([one.message for one in history]), None]:
        start = exchange.start if exchange else len(history)
        yield from ([one] for one in history[place:start] if one.position in free)
        if exchange:
            unit = [one for one in history[start : exchange.stop] if one.position in free]
            if unit:
                yield unit
            place = exchange.stop
