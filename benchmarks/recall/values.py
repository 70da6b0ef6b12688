"""Which values of a tool call a prompt is asked for, and whether it holds them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from durable_context.summarizers.stop_words import STOP_WORDS

SHORTEST = 3
SMALLEST = 10
SHORTEST_SYMBOL = 4

_PATH = re.compile(
    r"(?:[\w.~+-]*/)+[\w.~+-]*[\w~+-]|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,3}\b(?![.(])"
)
_SYMBOL = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MARKED = re.compile(r"_|\.|[a-z][A-Z]")
_LINE_NUMBER = re.compile(r"(?<![\w.])\d{2,6}(?![\w.])")


class Asked(NamedTuple):
    """A value of a call, and the argument it stands in: `flights.date`."""

    call: str
    argument: str
    value: str


def argument_values(message: Mapping[str, Any]) -> Iterator[Asked]:
    """Every scalar in the arguments of the message's calls, nested ones too, each once a call.

    Left out: booleans, numbers under 10, texts of fewer than 3 characters, and stop words in lower
    case, "yes" among them.
    """
    for name, arguments in _calls(message):
        yield from _distinct(name, ((at, t) for at, t in _scalars(arguments) if _tells(t)))


def command_values(message: Mapping[str, Any]) -> Iterator[Asked]:
    """Paths, symbols and line numbers in the arguments of the message's calls, each once a call.

    A path has a slash, or is a file's name with an extension of up to 4 characters. A symbol stands
    in no path and is an identifier of at least 4 characters with an underscore, a dot or an inner
    capital. A line number has at least 2 digits.
    """
    for name, arguments in _calls(message):
        texts = [text for _, text in _scalars(arguments)]
        yield from _distinct(name, (found for text in texts for found in _in_command(text)))


def appeared(asked: Iterable[Asked], earlier: Sequence[Mapping[str, Any]]) -> list[Asked]:
    """Those that stand as whole tokens in the text of an earlier message."""
    texts = [text_of(message) for message in earlier]
    return [each for each in asked if any(holds(text, each.value) for text in texts)]


def text_of(message: Mapping[str, Any]) -> str:
    """Content, names of calls and their arguments as they read without JSON's escapes."""
    said = [_content(message.get("content"))]
    for name, arguments in _calls(message):
        said.append(name)
        said.extend(text for _, text in _scalars(arguments))
    return "\n".join(said)


def holds(text: str, value: str) -> bool:
    """Whether the value stands in the text with no letter, digit or underscore beside it."""
    start = text.find(value)
    while start >= 0:
        end = start + len(value)
        if not (
            _joins(text[start - 1 : start], value[0]) or _joins(text[end : end + 1], value[-1])
        ):
            return True
        start = text.find(value, start + 1)
    return False


def _joins(neighbour: str, edge: str) -> bool:
    """Whether a neighbouring character makes a longer token of a value with this edge."""
    return bool(neighbour) and _in_word(neighbour) and _in_word(edge)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for call in message.get("tool_calls") or ():
        function = call["function"]
        try:
            yield function["name"], json.loads(function["arguments"])
        except ValueError:
            yield function["name"], function["arguments"]


def _scalars(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _scalars(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _scalars(item, path)
    elif value is not None and not isinstance(value, bool):
        yield path, str(value).strip()


def _distinct(call: str, found: Iterable[tuple[str, str]]) -> Iterable[Asked]:
    first: dict[str, Asked] = {}
    for argument, value in found:
        first.setdefault(value, Asked(call, argument, value))
    return first.values()


def _tells(value: str) -> bool:
    try:
        return abs(float(value)) >= SMALLEST
    except ValueError:
        return len(value) >= SHORTEST and value not in STOP_WORDS


def _in_command(text: str) -> Iterator[tuple[str, str]]:
    for match in _PATH.finditer(text):
        if len(match[0]) >= SHORTEST_SYMBOL and any(map(str.isalpha, match[0])):
            yield "path", match[0]
    rest = _PATH.sub(" ", text)
    for match in _SYMBOL.finditer(rest):
        if len(match[0]) >= SHORTEST_SYMBOL and _MARKED.search(match[0]):
            yield "symbol", match[0]
    for match in _LINE_NUMBER.finditer(rest):
        yield "line number", match[0]


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast("Sequence[Mapping[str, Any]]", content)
    return "\n".join(str(part.get("text", "")) for part in parts)
