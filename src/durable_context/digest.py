"""One line that stands in for a turn, made by rule: what was asked, done and answered."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from durable_context.ledger_cues import error_line, is_error
from durable_context.models import Message, Outcome, ToolCall
from durable_context.text import ELLIPSIS, clean, message_text, one_line, sentences, shorten
from durable_context.tokens import TokenCounter

_LOOK_AT: Final = 12_000
_SHOWN_CALLS: Final = 6
_SHOWN_ARGUMENTS: Final = 3
_VALUE_CHARS: Final = 48
_WEIGHTS: Final = {"Asked": 4, "Did": 4, "Answered": 3}
_OUTCOMES: Final[dict[Outcome, str]] = {
    "complete": "",
    "interrupted": "Interrupted before it ended.",
    "failed": "Failed.",
}
_CONTINUES: Final = "The run goes on."
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|dear|thanks?|thank you|sure|ok(?:ay)?|great|perfect|got it|of course"
    r"|certainly|good (?:morning|afternoon|evening)|yes|no|please let me know|feel free"
    r"|is there anything|let me know|you['’]re welcome|i(?:['’]m| am) (?:happy|glad) to|i hope"
    r"|hallo|guten (?:tag|morgen)|danke|bonjour|merci|hola|gracias|buenos días)\b",
    re.IGNORECASE,
)
_REQUEST: Final = re.compile(
    r"\b(?:please|need|want|would like|can you|could you|help|how|what|why|when|which|where|who|fix"
    r"|add|make|write|find|change|cancel|book|update|create|show|tell|bitte|möchte|kannst|wie"
    r"|warum|peux|pouvez|voudrais|comment|pourquoi|puedes|quiero|necesito|cómo)\b|[?？]",
    re.IGNORECASE,
)
_FACT: Final = re.compile(r"\d[\d.,:/-]*|[`\"“][^`\"”]{2,60}[`\"”]|\w+[_/@]\w+")
_MARKUP: Final = re.compile(r"\*\*|__|`{1,3}\w*|^\s*#{1,6}\s+|^\s*[-*•]\s+|^\s*>\s+")


def digest_of(
    messages: Sequence[Message],
    *,
    outcome: Outcome,
    continues: bool,
    max_tokens: int,
    counter: TokenCounter,
) -> str:
    """Plain text on one line that begins with an ASCII letter, within `max_tokens`."""
    ending = " ".join(filter(None, (_OUTCOMES[outcome], _CONTINUES if continues else "")))
    parts = {name: text for name, text in _parts(messages) if text}
    room = max_tokens - (counter.count(" " + ending) if ending else 0)
    fitted = _fitted(parts, room, counter)
    line = " ".join([*(_labelled(name, text) for name, text in fitted), ending]).strip()
    return shorten(clean(line or "Empty turn."), max_tokens, counter)


def _parts(messages: Sequence[Message]) -> Iterator[tuple[str, list[str]]]:
    """The pieces each part may be made of, whole, in order."""
    asked = [message_text(m) for m in messages if m.role == "user"]
    said = [t for m in messages if m.role == "assistant" and (t := message_text(m).strip())]
    yield "Asked", _pieces("\n".join(asked))
    yield "Did", _deeds(messages)
    yield "Answered", _pieces(said[-1]) if said else []


def _pieces(text: str) -> list[str]:
    found = (one_line(_MARKUP.sub("", piece)) for piece in sentences(text[:_LOOK_AT]))
    return [piece for piece in found if any(map(str.isalnum, piece))]


def _fitted(
    parts: dict[str, list[str]], room: int, counter: TokenCounter
) -> Iterator[tuple[str, str]]:
    """Each part cut to its share of the room; what one leaves goes to the next ones."""
    whole = {name: _joined(name, pieces) for name, pieces in parts.items()}
    sizes = {name: counter.count(_labelled(name, text)) + 1 for name, text in whole.items()}
    shares = _shares(sizes, room)
    for name, pieces in parts.items():
        if sizes[name] <= shares[name]:
            yield name, whole[name]
            continue
        inner = shares[name] - counter.count(_labelled(name, "")) - 1
        choose = _chosen_deeds if name == "Did" else _chosen
        text = choose(pieces, inner, counter)
        if text:
            yield name, text


def _shares(sizes: dict[str, int], room: int) -> dict[str, int]:
    shares: dict[str, int] = {}
    names = sorted(sizes, key=lambda name: sizes[name] / _WEIGHTS[name])
    for index, name in enumerate(names):
        weight = sum(_WEIGHTS[other] for other in names[index:])
        shares[name] = min(sizes[name], room * _WEIGHTS[name] // weight)
        room -= shares[name]
    return shares


def _labelled(name: str, text: str) -> str:
    ends = text.endswith((".", "!", "?", ELLIPSIS, "。", "！", "？"))
    return f"{name}: {text}" if ends else f"{name}: {text}."


def _joined(name: str, pieces: Sequence[str]) -> str:
    return ("; " if name == "Did" else " ").join(pieces)


def _chosen(pieces: list[str], room: int, counter: TokenCounter) -> str:
    """The most informative sentences that fit, in their own order, or a part of the best one."""
    ranked = sorted(range(len(pieces)), key=lambda i: (-_salience(pieces[i], i, len(pieces)), i))
    kept: list[int] = []
    for index in ranked[:24]:
        size = counter.count(pieces[index]) + 1
        if size <= room:
            kept.append(index)
            room -= size
        elif not kept:
            return shorten(pieces[index], room, counter)
    return " ".join(pieces[index] for index in sorted(kept))


def _salience(piece: str, index: int, count: int) -> float:
    facts = min(4, len(_FACT.findall(piece[:600])))
    words = min(16, piece.count(" ") + 1)
    position = 1.0 if index == 0 else 0.5 if index == count - 1 else 0.0
    score = 1.2 * facts + words / 8 + position + (1.5 if _REQUEST.search(piece[:600]) else 0)
    return score - (4 if _GREETING.match(piece) and words < 12 else 0)


def _deeds(messages: Sequence[Message]) -> list[str]:
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    calls = [call for m in messages for call in m.tool_calls]
    return [_deed(call, results.get(call.id)) for call in calls]


def _chosen_deeds(deeds: list[str], room: int, counter: TokenCounter) -> str:
    """The first and the newest deeds, and how many there were between them."""
    kept = min(len(deeds), _SHOWN_CALLS)
    while kept > 1:
        text = _some_deeds(deeds, kept)
        if counter.count(text) <= room:
            return text
        kept -= 1
    tally = f"{len(deeds)} calls; " if len(deeds) > 1 else ""
    return shorten(tally + deeds[-1], room, counter)


def _some_deeds(deeds: list[str], kept: int) -> str:
    if kept == len(deeds):
        return "; ".join(deeds)
    first, last = deeds[: kept // 2], deeds[-(kept - kept // 2) :]
    return "; ".join([*first, f"{ELLIPSIS} {len(deeds) - kept} more calls {ELLIPSIS}", *last])


def _deed(call: ToolCall, result: Message | None) -> str:
    return f"{one_line(call.name)}({_arguments(call.arguments)}) {_result(result)}"


def _result(result: Message | None) -> str:
    if result is None or result.synthetic:
        return "no result"
    text = message_text(result)
    if is_error(text):
        return f'error "{_short(error_line(text), 90)}"'
    line = one_line(text[:80])
    short = len(text) <= 40 and line and line[0] not in "{["
    return f"→ {line}" if short else "ok"


def _arguments(text: str) -> str:
    try:
        arguments: Any = json.loads(text)
    except (ValueError, RecursionError):
        return _short(text, _VALUE_CHARS)
    if not isinstance(arguments, dict):
        return _short(text, _VALUE_CHARS)
    pairs = [
        (name, shown)
        for name, value in cast("dict[str, Any]", arguments).items()
        if (shown := _value(value))
    ]
    if len(pairs) == 1 and len(pairs[0][1]) > 24:
        return pairs[0][1]
    best = sorted(range(len(pairs)), key=lambda i: (-_worth(*pairs[i]), i))[:_SHOWN_ARGUMENTS]
    shown = [f"{pairs[i][0]}={pairs[i][1]}" for i in sorted(best)]
    return ", ".join([*shown, ELLIPSIS] if len(pairs) > len(shown) else shown)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ""
    if isinstance(value, list):
        return _short(" ".join(_value(item) for item in cast("list[Any]", value)[:4]), _VALUE_CHARS)
    return "" if value is None else _short(str(value), _VALUE_CHARS)


def _worth(name: str, value: str) -> int:
    """Identifiers first, then short values."""
    return 2 * any(map(str.isdigit, value)) + (name.lower().endswith(("id", "name", "path"))) * 2


def _short(text: str, chars: int) -> str:
    line = one_line(text[: 4 * chars])
    return line if len(line) <= chars else line[:chars].rstrip() + ELLIPSIS
