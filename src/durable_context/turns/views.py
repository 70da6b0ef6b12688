"""The short form of a large message: what it is, how large, and its beginning and end or its shape.
A view keeps all that makes the message valid for a provider.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from durable_context.models import Message, ToolCall
from durable_context.text import ELLIPSIS, clean, message_text, shorten
from durable_context.tokens import TokenCounter

_PARSED: Final = 500_000
"""Longer documents are shown as text: parsing them would hold up a recording."""
_LEVELS: Final = (
    # depth, items, keys and characters of a string that a preview keeps
    (8, 400, 4_000, 64_000),
    (8, 100, 1_000, 16_000),
    (8, 40, 400, 4_000),
    (7, 12, 100, 800),
    (6, 4, 40, 200),
    (5, 3, 30, 100),
    (5, 2, 24, 60),
    (4, 1, 20, 40),
    (3, 1, 16, 24),
    (2, 1, 12, 16),
    (1, 0, 12, 12),
    (1, 0, 5, 8),
)
_CHARACTERS: Final = 12
"""A preview of more characters per token of room than this is not worth counting."""
_HEAD_SHARE: Final = 0.6


def view_of(message: Message, *, max_tokens: int, counter: TokenCounter) -> Message:
    """The message with its content and call arguments within `max_tokens` together.

    One that already is that small is returned as it is, but for its reasoning, of which nothing
    stays where no tool calls need it.
    """
    return _within(message, max_tokens, counter, content_view)


def shorter_view(view: Message, *, max_tokens: int, counter: TokenCounter) -> Message:
    """A view of a view, or of a small message: its beginning, which says what it is a view of."""
    return _within(view, max_tokens, counter, shorten)


def without_idle_reasoning(message: Message) -> Message:
    """The message as a view of it may be sent: providers want reasoning back beside tool calls,
    and a failed tool's result says that it failed.
    """
    if not message.reasoning or message.tool_calls or message.role == "tool":
        return message
    return message.model_copy(update={"reasoning": ()})


def _within(
    message: Message,
    max_tokens: int,
    counter: TokenCounter,
    cut: Callable[[str, int, TokenCounter], str],
) -> Message:
    message = without_idle_reasoning(message)
    text = message_text(message)
    if isinstance(message.content, tuple):
        spoken = message.model_copy(update={"tool_calls": (), "reasoning": ()})
        total = counter.count_message(spoken)
    else:
        total = counter.count_to(text, max_tokens)
    sizes = [total, *(counter.count_to(c.arguments, max_tokens) for c in message.tool_calls)]
    if sum(sizes) <= max_tokens:
        return message
    shares = _shares(sizes, max_tokens)
    content = message.content
    if sizes[0] > shares[0]:
        content = cut(text, shares[0], counter) or None
    calls = tuple(
        _call_view(call, share, counter) if size > share else call
        for call, size, share in zip(message.tool_calls, sizes[1:], shares[1:], strict=True)
    )
    return message.model_copy(update={"content": content, "tool_calls": calls})


def content_view(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """A text within `max_tokens`: a JSON document as its shape, others as beginning and end."""
    if counter.fits(text, max_tokens):
        return text
    document = _document(text)
    if document is not None:
        return _shape_view(text, document, max_tokens, counter)
    return _text_view(text, max_tokens, counter)


def media_type_of(text: str) -> str:
    """What a tool's text is, as far as it matters here."""
    return "text/plain" if _document(text) is None else "application/json"


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """The room divided so that small parts stay whole and large ones get the same."""
    shares = [0] * len(sizes)
    for left, index in enumerate(sorted(range(len(sizes)), key=lambda i: (sizes[i], i))):
        shares[index] = min(sizes[index], room // (len(sizes) - left))
        room -= shares[index]
    return shares


def _document(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or array a text is, else None."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _PARSED:
        return None
    try:
        found: Any = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any] | list[Any]", found) if isinstance(found, dict | list) else None


def _shape_view(
    text: str, document: dict[str, Any] | list[Any], max_tokens: int, counter: TokenCounter
) -> str:
    kind = "object" if isinstance(document, dict) else "array"
    head = f"[JSON {kind} of {len(document):,}, {len(text):,} characters: shape and samples]\n"
    for level in _LEVELS:
        view = head + _dumped(_preview(document, *level))
        if _is_within(view, max_tokens, counter):
            return view
    return _text_view(text, max_tokens, counter)


def _preview(value: Any, depth: int, items: int, keys: int, chars: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= chars else value[:chars] + ELLIPSIS
    if isinstance(value, dict):
        return _preview_object(cast("dict[str, Any]", value), depth, items, keys, chars)
    if isinstance(value, list):
        return _preview_array(cast("list[Any]", value), depth, items, keys, chars)
    return value


def _preview_object(
    value: dict[str, Any], depth: int, items: int, keys: int, chars: int
) -> dict[str, Any]:
    if depth == 0 and value:
        return {ELLIPSIS: f"{len(value):,} keys"}
    shown = {
        _preview(key, 0, 0, 0, 60): _preview(inner, depth - 1, items, keys, chars)
        for key, inner in list(value.items())[:keys]
    }
    if len(value) > keys:
        shown[ELLIPSIS] = f"{len(value) - keys:,} more keys"
    return shown


def _preview_array(value: list[Any], depth: int, items: int, keys: int, chars: int) -> list[Any]:
    if depth == 0 or items == 0:
        return [f"{ELLIPSIS} {len(value):,} items"] if value else []
    shown = [_preview(inner, depth - 1, items, keys, chars) for inner in value[:items]]
    if len(value) > items:
        shown.append(f"{ELLIPSIS} {len(value) - items:,} more of {len(value):,} items")
    return shown


def _is_within(view: str, max_tokens: int, counter: TokenCounter) -> bool:
    return len(view) <= _CHARACTERS * max_tokens and counter.fits(view, max_tokens)


def _text_view(text: str, max_tokens: int, counter: TokenCounter) -> str:
    lines = text.count("\n") + 1
    head = f"[text, {lines:,} lines, {len(text):,} characters: beginning and end]\n"
    room = max_tokens - counter.count(head) - counter.count(_omission(text, len(text))) - 4
    if room < 8:
        return shorten(text, max_tokens, counter)
    while room > 0:
        begin = _beginning(text, int(room * _HEAD_SHARE), counter)
        end = _end(text[len(begin) :], room - int(room * _HEAD_SHARE), counter)
        omitted = text[len(begin) : len(text) - len(end)]
        view = f"{head}{begin.rstrip()}\n{_omission(omitted, len(omitted))}\n{end.lstrip()}"
        if counter.count(view) <= max_tokens:
            return view
        room -= max(1, counter.count(view) - max_tokens)
    return shorten(text, max_tokens, counter)


def _omission(text: str, characters: int) -> str:
    lines = text.count("\n")
    count = f"{lines:,} lines, " if lines > 1 else ""
    return f"[{ELLIPSIS} {count}{characters:,} characters omitted {ELLIPSIS}]"


def _beginning(text: str, max_tokens: int, counter: TokenCounter) -> str:
    kept = counter.truncate(text, max_tokens)
    for separator in ("\n", " "):
        cut = kept.rfind(separator)
        if cut > len(kept) // 2:
            return kept[: cut + 1]
    return kept


def _end(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The last part of a text, cut at a line or word."""
    size = min(len(text), 8 * max_tokens)
    while size and counter.count(text[-size:]) > max_tokens:
        size = size * 3 // 4
    kept = text[len(text) - size :]
    for separator in ("\n", " "):
        cut = kept.find(separator)
        if 0 <= cut < len(kept) // 2:
            return kept[cut + 1 :]
    return kept


def _call_view(call: ToolCall, max_tokens: int, counter: TokenCounter) -> ToolCall:
    return call.model_copy(
        update={"arguments": _arguments_view(call.arguments, max_tokens, counter)}
    )


def _arguments_view(arguments: str, max_tokens: int, counter: TokenCounter) -> str:
    """The arguments as valid JSON within `max_tokens`, long strings and arrays cut."""
    document = _document(arguments)
    if isinstance(document, dict):
        for level in _LEVELS:
            view = _dumped(_preview(document, *level))
            if _is_within(view, max_tokens, counter):
                return view
    for chars in (400, 200, 100, 50, 20, 0):
        view = _dumped({"_omitted": arguments[:chars] + ELLIPSIS})
        if counter.count(view) <= max_tokens:
            return view
    return "{}"


def _dumped(value: Any) -> str:
    """Half a surrogate pair, which JSON can escape, is no text that a provider takes."""
    return clean(json.dumps(value, ensure_ascii=False))
