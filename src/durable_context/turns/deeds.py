"""Tool calls in a few words: the name, the arguments that tell which, and how it ended."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from durable_context.models import Message, ToolCall
from durable_context.text import ELLIPSIS, message_text, one_line, shorten
from durable_context.tokens import TokenCounter
from durable_context.turns.ledger import only_reads
from durable_context.turns.ledger_cues import error_line, is_error

_ARGUMENTS: Final = 3
_VALUE_CHARS: Final = 48
_ERROR_CHARS: Final = 90
_TRIED: Final = 24
_ANSWER_CHARS: Final = 40
"""A result as short as this is shown instead of `ok`."""


class Deed(NamedTuple):
    """What one call did; a higher rank matters more."""

    call: ToolCall
    outcome: str
    rank: int

    def text(self, arguments: int = _ARGUMENTS) -> str:
        """The call with so many of its arguments, and how it ended."""
        shown = _arguments(self.call.arguments, arguments)
        return f"{one_line(self.call.name)}({shown}) {self.outcome}"


def deeds_of(messages: Sequence[Message]) -> Iterator[Deed]:
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            yield Deed(call, *_outcome(call, results.get(call.id)))


def chosen_deeds(messages: Sequence[Message], room: int, counter: TokenCounter) -> str:
    """What fits, in order: changes first, then errors, then answers; newest first."""
    deeds = list(deeds_of(messages))
    ranked = sorted(range(len(deeds)), key=lambda index: (-deeds[index].rank, -index))
    tally = f"{len(deeds)} calls, among them " if len(deeds) > 1 else ""
    left = room - counter.count(tally)
    kept: dict[int, str] = {}
    for index in ranked[:_TRIED]:
        for text in map(deeds[index].text, (_ARGUMENTS, 1)):
            size = counter.count(f" {text};")
            if size <= left:
                kept[index] = text
                left -= size
                break
        if not kept:
            return shorten(tally + deeds[index].text(1), room, counter)
    return tally + "; ".join(kept[index] for index in sorted(kept))


def _outcome(call: ToolCall, result: Message | None) -> tuple[str, int]:
    if result is None or result.synthetic:
        return "no result", 2
    text = message_text(result)
    if is_error(text):
        return f'error "{_short(error_line(text), _ERROR_CHARS)}"', 2
    answer = one_line(text) if len(text) <= _ANSWER_CHARS else ""
    shown = f"→ {answer}" if answer and answer[0] not in "{[" else "ok"
    return shown, 3 if not only_reads(call) else 1 if answer else 0


def _arguments(text: str, count: int) -> str:
    try:
        arguments: Any = json.loads(text)
    except (ValueError, RecursionError):
        return _short(text, _VALUE_CHARS)
    if not isinstance(arguments, dict):
        return _short(text, _VALUE_CHARS)
    named = cast("dict[str, Any]", arguments).items()
    pairs = [(name, shown) for name, value in named if (shown := _value(value))]
    if len(pairs) == 1 and len(pairs[0][1]) > 24:
        return pairs[0][1]
    if len(pairs) <= count:
        return ", ".join(f"{name}={shown}" for name, shown in pairs)
    best = sorted(range(len(pairs)), key=lambda i: (-_worth(*pairs[i]), i))[:count]
    shown = [f"{pairs[i][0]}={pairs[i][1]}" for i in sorted(best)]
    return ", ".join([*shown, ELLIPSIS])


def _value(value: Any) -> str:
    if value is None:
        return ""
    return _short(" ".join(_scalars(value, 0)), _VALUE_CHARS)


def _scalars(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if isinstance(value, list) and depth < 4:
        for item in cast("list[Any]", value)[:6]:
            yield from _scalars(item, depth + 1)
    elif value is not None:
        yield one_line(str(cast("Any", value))[: 2 * _VALUE_CHARS])


def _worth(name: str, value: str) -> int:
    """Identifiers before words before numbers."""
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    return 2 * (has_digit and has_letter) + has_letter + 2 * name.lower().endswith("id")


def _short(text: str, chars: int) -> str:
    line = one_line(text[: 4 * chars])
    return line if len(line) <= chars else line[:chars].rstrip() + ELLIPSIS
