"""The ledger: facts taken from turns by rule, so that no summarizer can lose them. Merging and
capping are deterministic and do not depend on the order in which ledgers were merged.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import log2
from typing import Any, Final, cast

from durable_context.models import LedgerEntry, LedgerKind, Message, ToolCall
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import TokenCounter
from durable_context.turns.ledger_cues import decisions, error_line, excerpt, is_error, short_line
from durable_context.turns.ledger_rules import (
    Fact,
    clock_times,
    facts_of,
    quoted_facts,
    said_facts,
    symbols,
)

ENTRIES_PER_TURN: Final = 40
_KIND_VALUE: Final[dict[LedgerKind, float]] = {
    "call": 5.0,
    "decision": 4.5,
    "open item": 4.5,
    "artifact": 4.25,
    "identifier": 4.0,
    "email": 4.0,
    "error": 3.5,
    "path": 3.5,
    "url": 3.5,
    "amount": 3.0,
    "date": 3.0,
    "version": 3.0,
}
_KIND_ORDER: Final = {kind: rank for rank, kind in enumerate(_KIND_VALUE)}
_READING: Final = re.compile(
    r"(?:get|list|search|read|find|calculate|compute|think|lookup|look_up|fetch|query|show|view|open"
    r"|describe|count|check|browse|retrieve|grep|ls|cat|head|tail|goto|scroll|help|status|validate"
    r"|recall|load|select|inspect|explain|summari[sz]e|web_search|screenshot"
    r"|strings|file|pwd|cd|echo|diff|git (?:log|diff|status|show)|tree|stat|wc|du|df|ps|env|which)"
    r"(?![a-z])",
    re.IGNORECASE,
)
_COMMAND: Final = re.compile(r"\s*\{\s*\"(?:command|cmd|script|input)\"\s*:\s*\"\s*")
_FACTS_PER_TEXT: Final = 400
_FACTS_PER_HEAP: Final = 12
_TEXTS_PER_CALL: Final = 40
_BURIED: Final = 4_000
"""Characters from which on a tool's result is a heap in which single facts weigh little."""


@dataclass
class _Found:
    kind: LedgerKind
    value: str
    weight: float = 0.0


def ledger_of(messages: Sequence[Message]) -> tuple[LedgerEntry, ...]:
    """The facts of one turn, the most valuable first.

    What the user says or a call passes on counts as two mentions.
    """
    found: dict[tuple[LedgerKind, str], _Found] = {}
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        for weight, facts in _weighted(message, results):
            _count(found, weight, facts)
    best = sorted(found.values(), key=lambda fact: -_KIND_VALUE[fact.kind] - log2(1 + fact.weight))
    return tuple(
        LedgerEntry(kind=fact.kind, value=fact.value, mentions=max(1, round(fact.weight)))
        for fact in best[:ENTRIES_PER_TURN]
    )


def merge_ledgers(
    older: Sequence[LedgerEntry], newer: Sequence[LedgerEntry]
) -> tuple[LedgerEntry, ...]:
    """One entry per fact with its mentions summed and its newest turn, newest first."""
    merged: dict[tuple[LedgerKind, str], LedgerEntry] = {}
    for entry in (*older, *newer):
        key = entry.kind, _normal(entry.value)
        known = merged.get(key)
        merged[key] = entry if known is None else _joined(known, entry)
    return tuple(sorted(merged.values(), key=_order))


def cap_ledger(
    entries: Sequence[LedgerEntry], max_tokens: int, counter: TokenCounter
) -> tuple[LedgerEntry, ...]:
    """The most valuable entries that fit, newest first. Value is kind, mentions and recency."""
    newest = max((entry.turn_no or 0 for entry in entries), default=0)
    ranked = sorted(entries, key=lambda entry: (-_value(entry, newest), _order(entry)))
    kept: list[LedgerEntry] = []
    room = max_tokens
    for entry in ranked:
        if room < _SMALLEST_LINE:
            break
        tokens = counter.count(ledger_line(entry.kind, entry.value))
        if tokens <= room:
            kept.append(entry)
            room -= tokens
    return tuple(sorted(kept, key=_order))


def missing_from(entries: Sequence[LedgerEntry], text: str) -> tuple[LedgerEntry, ...]:
    """The entries whose value the text does not say."""
    said = _normal(text)
    return tuple(entry for entry in entries if not _says(said, _normal(entry.value)))


def ledger_line(kind: str, value: str) -> str:
    """The entry as one line. The kind is named where the value does not tell."""
    return f"- {kind}: {value}\n" if kind in _NAMED else f"- {value}\n"


_NAMED: Final = frozenset(["call", "decision", "open item", "error", "artifact"])
_SMALLEST_LINE: Final = 4


def _weighted(
    message: Message, results: dict[str | None, Message]
) -> Iterator[tuple[float, Iterator[Fact]]]:
    text = message_text(message)
    if message.role == "tool":
        if not message.synthetic:
            yield from _from_result(text)
        return
    by_user = message.role == "user"
    if text:
        yield (2 if by_user else 1), _said(excerpt(text), by_user)
    for call in message.tool_calls:
        arguments = excerpt(call.arguments)
        yield 2, chain(facts_of(arguments), quoted_facts(arguments))
        yield 1, chain.from_iterable(map(symbols, islice(_texts(call), _TEXTS_PER_CALL)))
        yield 1, _call_facts(call, results.get(call.id))


def _said(text: str, by_user: bool) -> Iterator[Fact]:
    yield from decisions(text, by_user=by_user)
    yield from facts_of(text)
    yield from said_facts(text)
    if by_user:
        yield from clock_times(text)


def _from_result(text: str) -> Iterator[tuple[float, Iterator[Fact]]]:
    buried = len(text) > _BURIED
    text = excerpt(text)
    facts = chain(facts_of(text), quoted_facts(text))
    yield (0.5, _most_telling(facts)) if buried else (1.0, facts)


def _most_telling(facts: Iterator[Fact]) -> Iterator[Fact]:
    """Of a heap's facts a few: a list of five hundred ids would leave no room for anything else."""
    found = dict.fromkeys(islice(facts, _FACTS_PER_TEXT))
    return iter(sorted(found, key=lambda fact: -_KIND_VALUE[fact[0]])[:_FACTS_PER_HEAP])


def _call_facts(call: ToolCall, result: Message | None) -> Iterator[Fact]:
    """A call that changed something, or the error it met."""
    if result is None or result.synthetic:
        return
    text = message_text(result)
    if is_error(text):
        yield "error", short_line(f"{call.name}: {error_line(text)}")
    elif not only_reads(call):
        yield "call", short_line(f"{call.name}({_arguments(call.arguments)})")


def only_reads(call: ToolCall) -> bool:
    """Whether a call only looks, by its name or, for a shell, by its command."""
    if _READING.match(call.name):
        return True
    command = _COMMAND.match(call.arguments)
    return command is not None and _READING.match(call.arguments, command.end()) is not None


def _texts(call: ToolCall) -> Iterator[str]:
    """The texts among a call's arguments."""
    try:
        arguments: Any = json.loads(call.arguments) if len(call.arguments) < _BURIED else None
    except (ValueError, RecursionError):
        return
    values: list[Any] = [arguments]
    while values:
        value = values.pop(0)
        if isinstance(value, dict):
            values += cast("dict[str, Any]", value).values()
        elif isinstance(value, list):
            values += cast("list[Any]", value)
        elif isinstance(value, str):
            yield value


def _arguments(text: str) -> str:
    try:
        arguments: Any = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(text[:400])
    return ", ".join(_flat(arguments, "value"))


def _flat(value: Any, name: str, depth: int = 0) -> Iterator[str]:
    if isinstance(value, dict) and depth < 6:
        for key, inner in cast("dict[str, Any]", value).items():
            yield from _flat(inner, key, depth + 1)
    elif isinstance(value, list) and depth < 6:
        for inner in cast("list[Any]", value)[:8]:
            yield from _flat(inner, name, depth + 1)
    elif value is not None and value != "":
        shown = one_line(str(cast("Any", value))[:200])
        yield f"{name}={shown[:60] + '…' if len(shown) > 60 else shown}"


def _count(
    found: dict[tuple[LedgerKind, str], _Found], weight: float, facts: Iterator[Fact]
) -> None:
    for kind, value in dict.fromkeys(islice(facts, _FACTS_PER_TEXT)):
        value = one_line(clean(value))
        if value:
            fact = found.setdefault((kind, _normal(value)), _Found(kind, value))
            fact.weight += weight


def _joined(one: LedgerEntry, other: LedgerEntry) -> LedgerEntry:
    first = min(one, other, key=lambda entry: (-_turn(entry), entry.value))
    return first.model_copy(update={"mentions": one.mentions + other.mentions})


def _normal(text: str) -> str:
    return one_line(text).casefold()


def _turn(entry: LedgerEntry) -> float:
    return float("inf") if entry.turn_no is None else entry.turn_no


def _order(entry: LedgerEntry) -> tuple[float, int, int, str]:
    return -_turn(entry), _KIND_ORDER[entry.kind], -entry.mentions, entry.value


def fact_value(kind: LedgerKind, mentions: int) -> float:
    """What a fact is worth by its kind and how often it was named."""
    return _KIND_VALUE[kind] + log2(1 + mentions)


def _value(entry: LedgerEntry, newest: int) -> float:
    age = newest - (newest if entry.turn_no is None else entry.turn_no)
    return fact_value(entry.kind, entry.mentions) - 0.5 * log2(1 + age)


def _says(text: str, value: str) -> bool:
    """Whether the value stands in the text as a whole, not as a part of a longer one."""
    start = text.find(value)
    while start >= 0:
        end = start + len(value)
        whole_start = start == 0 or not (text[start - 1].isalnum() and value[0].isalnum())
        whole_end = end == len(text) or not (text[end].isalnum() and value[-1].isalnum())
        if whole_start and whole_end:
            return True
        start = text.find(value, start + 1)
    return False
