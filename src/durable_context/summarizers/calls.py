"""Tool calls of a turn in one readable line: names, telling arguments, outcomes."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from durable_context.models import Message, ToolCall
from durable_context.text import ELLIPSIS, message_text, one_line, shorten
from durable_context.tokens import TokenCounter
from durable_context.turns.ledger_cues import error_line, is_error

SUMMARY_LINE: Final = "Summary of all of it: "
"""Begins the line after the view of an offloaded result that says what all of it is."""

_CALLS: Final = 300
_MARK_TOKENS: Final = 4
_SHOWN_ARGUMENTS: Final = (5, 3, 1, 0)
_VALUE_CHARS: Final = 48
_COMMAND_CHARS: Final = 72
_ERROR_CHARS: Final = 90
_PLAIN_RESULT: Final = re.compile(r"[^\s{}\[\]<>]{1,32}")
_PARSED_CHARS: Final = 100_000
_NOTES: Final = re.compile(r"(?:\[(?:artifact|text|JSON) [^\n]{0,300}\]\n)+")
"""What a view says of itself before it begins."""


class _Call(NamedTuple):
    name: str
    arguments: str
    outcome: str


def calls_line(messages: Sequence[Message], max_tokens: int, counter: TokenCounter) -> str:
    """`get_user(mia_3668) ok; book(AB12) error: no seats`, or nothing when nothing was called.

    Calls of one tool that went alike are joined; of too many the last and the first are shown.
    """
    calls, left_out = _ends([call for message in messages for call in message.tool_calls])
    shown = [_fitting(run, max_tokens, counter) for run in _alike(_calls(calls, messages))]
    sizes = [counter.count(call) + 1 for call in shown]
    total = sum(sizes)
    while len(shown) > 1 and total + (_MARK_TOKENS if left_out else 0) > max_tokens:
        place = len(shown) // 3
        total -= sizes.pop(place)
        del shown[place]
        left_out += 1
    if left_out:
        shown.insert(len(shown) // 3, f"{left_out} more call{'s' if left_out > 1 else ''}")
    return shorten("; ".join(shown), max_tokens, counter)


def _ends(calls: list[ToolCall]) -> tuple[list[ToolCall], int]:
    """The first and, twice as many, the last calls, and how many were between them."""
    if len(calls) <= _CALLS:
        return calls, 0
    first = _CALLS // 3
    return calls[:first] + calls[first - _CALLS :], len(calls) - _CALLS


def _calls(calls: Sequence[ToolCall], messages: Sequence[Message]) -> list[_Call]:
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    return [
        _Call(one_line(call.name[:_VALUE_CHARS]), _arguments(call), _outcome(results.get(call.id)))
        for call in calls
    ]


def _alike(calls: Sequence[_Call]) -> Iterator[list[_Call]]:
    for _, run in groupby(calls, key=lambda call: (call.name, call.outcome)):
        yield list(run)


def _fitting(calls: list[_Call], max_tokens: int, counter: TokenCounter) -> str:
    """The calls in one, with as many arguments as there is room for."""
    name, _, outcome = calls[0]
    arguments = [text for text in dict.fromkeys(call.arguments for call in calls) if text]
    times = f" ×{len(calls)}" if len(calls) > 1 else ""
    line = name
    for count in _SHOWN_ARGUMENTS:
        values = arguments if len(arguments) <= count else [*arguments[:count], ELLIPSIS]
        separator = " | " if any(" " in value for value in values) else ", "
        line = f"{name}({separator.join(values)}){times} {outcome}"
        if counter.count(line) <= max_tokens:
            break
    return line


def _outcome(result: Message | None) -> str:
    if result is None or result.synthetic:
        return "without a result"
    text = message_text(result).strip()
    headline = ""
    if result.artifact is not None:
        text, _, told = _NOTES.sub("", text, count=1).rpartition(f"\n{SUMMARY_LINE}")
        text, headline = (text, told.partition("\n")[0]) if text else (told, "")
    if is_error(text):
        return f"error: {_cut(re.sub(r'^(?i:error: *)+', '', error_line(text)), _ERROR_CHARS)}"
    if headline:
        return f"ok: {_cut(headline, _ERROR_CHARS)}"
    if _PLAIN_RESULT.fullmatch(text):
        return f"→ {text}"
    return "ok" if text else "ok, empty"


def _arguments(call: ToolCall) -> str:
    """Plain values, at most three; a command or a long text by its beginning."""
    try:
        parsed: Any = json.loads(call.arguments) if len(call.arguments) < _PARSED_CHARS else None
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return ""
    values = list(_plain(cast("dict[str, Any]", parsed)))
    if len(values) == 1:
        return _cut(values[0], _COMMAND_CHARS)
    return " ".join(_cut(value, _VALUE_CHARS) for value in values[:3])


def _plain(arguments: dict[str, Any]) -> Iterator[str]:
    for value in arguments.values():
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
            yield str(value)


def _cut(value: str, chars: int) -> str:
    """The first line, cut at a word."""
    first, _, rest = value.strip().partition("\n")
    line = one_line(first[: 2 * chars])
    if len(line) > chars:
        head = line[:chars].rsplit(" ", 1)[0] if " " in line[chars // 2 : chars] else line[:chars]
        return head.rstrip() + ELLIPSIS
    return f"{line} {ELLIPSIS}" if rest.strip() and line else line
