"""Turns as text: who said what, as it was recorded."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from durable_context.models import Message, Turn
from durable_context.text import clean, message_text, one_line
from durable_context.tools.answering.bound import DATA, Bound
from durable_context.turns.messages import call_text

_WIDTH_SHARE: Final = 6
"""Lines are folded at this share of the bound in characters, so that several fit whatever they
hold.
"""
_NARROWEST: Final = 40
_SPEAKER_CHARACTERS: Final = 64


class TurnLine(NamedTuple):
    """A line of a turn; `line_no` counts in its turn from 1."""

    turn_no: int
    line_no: int
    text: str


def turn_lines(turn: Turn, bound: Bound) -> Iterator[TurnLine]:
    """The turn's lines, long ones folded."""
    width = max(_NARROWEST, bound.max_tokens // _WIDTH_SHARE)
    texts = (part for line in _written(turn) for part in _folded(line, width))
    for line_no, text in enumerate(texts, 1):
        yield TurnLine(turn.turn_no, line_no, text)


def turn_page(lines: Sequence[TurnLine], to_turn: int, bound: Bound) -> str:
    """As many of the lines as fit."""

    def page(count: int) -> str:
        first, last = lines[0], lines[count - 1]
        which = f"turns {first.turn_no}-{last.turn_no}"
        if first.turn_no == last.turn_no:
            which = f"turn {first.turn_no}"
        skipped = f" from line {first.line_no}" if first.line_no > 1 else ""
        on = _go_on(lines[count], to_turn) if count < len(lines) else ""
        head = f"[{which}{skipped}, as recorded{on}. {DATA}]"
        return "\n".join([head, *(line.text for line in lines[:count])])

    return bound.longest(page, bound.worth_trying([line.text for line in lines]))[1]


def _go_on(following: TurnLine, to_turn: int) -> str:
    start = f", start={following.line_no}" if following.line_no > 1 else ""
    return f"; go on with from_turn={following.turn_no}, to_turn={to_turn}{start}"


def _written(turn: Turn) -> Iterator[str]:
    """A head, then each message; what they say is indented, so that nothing in it passes for a
    head.
    """
    outcome = "" if turn.outcome == "complete" else f", {turn.outcome}"
    yield f"[turn {turn.turn_no}, {turn.occurred_at:%Y-%m-%d %H:%M}{outcome}]"
    names = {call.id: call.name for message in turn.messages for call in message.tool_calls}
    for message in turn.messages:
        yield _speaker(message, names)
        text = clean(message_text(message)).rstrip()
        if text:
            yield from (f"  {line}" for line in text.splitlines())
        for call in message.tool_calls:
            yield from (f"  calls {line}" for line in clean(call_text(call)).splitlines())


def _speaker(message: Message, names: dict[str, str]) -> str:
    if message.role == "tool":
        name = names.get(message.tool_call_id or "", "a tool")
        return f"result of {_label(name)}:"
    named = f" {_label(message.name)}" if message.name else ""
    return f"{message.role}{named}:"


def _label(name: str) -> str:
    return one_line(clean(name))[:_SPEAKER_CHARACTERS]


def _folded(line: str, width: int) -> Iterator[str]:
    """The line in parts of at most `width` characters, cut at spaces where there are some."""
    start, indent = 0, ""
    while len(line) - start > width:
        space = line.rfind(" ", start + width // 2, start + width)
        end = space if space >= 0 else start + width
        yield indent + line[start:end]
        start, indent = end + (space >= 0), "  "
    yield indent + line[start:]
