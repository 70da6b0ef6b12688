"""Pinned turns and facts in a prompt: word for word in a block of their own, beside what stands for
their turns, and never a second time where these are raw.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from durable_context.artifacts.media import shown_name
from durable_context.models import Message
from durable_context.prompts.block_tokens import frame_tokens, label_tokens
from durable_context.prompts.blocks import Exchange, Parts, PinnedSection
from durable_context.prompts.rendering import FOOT, PINNED_HEAD, turns_label
from durable_context.prompts.retrieved import Retrieved, RetrievedNode, RetrievedTurn
from durable_context.prompts.state import PinnedTurn, TailTurn
from durable_context.text import clean, message_text, one_line, section
from durable_context.tokens import token_counter
from durable_context.turns.ledger import ledger_line
from durable_context.turns.messages import call_text

_CACHED_CHARACTERS: Final = 20_000
_LABEL: Final = re.compile(
    "([\n\r\v\f\x1c-\x1e\x85\u2028\u2029])([^\\S\n\r\v\f\x1c-\x1e\x85\u2028\u2029]{0,8})"
    r"\[(?=\s{0,8}turns?\b)",
    re.IGNORECASE,
)


class Kept(NamedTuple):
    """A turn of which something is pinned: as the pinned block shows it, if all of it is, and as it
    stands raw in the main line, if it does.
    """

    pinned: PinnedTurn
    shown: Exchange | None
    raw: Exchange | None


def kept_turns(
    pinned: Iterable[PinnedTurn],
    raw: Iterable[Exchange],
    exchange_of: Callable[[TailTurn], Exchange],
) -> list[Kept]:
    """The pinned turns. From now on those that are raw stay whole."""
    standing = {exchange.turn_no: exchange for exchange in raw}
    return [_kept(one, standing.get(one.turn_no), exchange_of) for one in pinned]


def pinned_sections(
    kept: Iterable[Kept], open_run_turn: int | None, encoding: str
) -> list[PinnedSection]:
    """What the pinned block may show, in the order of the turns, a turn's facts first. A fact
    stands here unless its turn does, and says it.
    """
    return [found for one in kept for found in _sections(one, open_run_turn, encoding)]


def _kept(
    pinned: PinnedTurn, raw: Exchange | None, exchange_of: Callable[[TailTurn], Exchange]
) -> Kept:
    if not pinned.whole:
        return Kept(pinned, None, raw)
    if pinned.turn is not None:
        return Kept(pinned, replace(exchange_of(pinned.turn), pinned=True), raw)
    assert raw is not None
    raw.pinned = True
    return Kept(pinned, replace(raw, viewed=set(raw.viewed)), raw)


def _sections(kept: Kept, open_run_turn: int | None, encoding: str) -> Iterator[PinnedSection]:
    turn_no, day, _, facts, _ = kept.pinned
    in_raw = _least_text(kept.raw) if kept.raw else ""
    in_turn = _least_text(kept.shown) if kept.shown else ""
    for kind, value in facts:
        text = f"{turns_label(turn_no, turn_no)} {one_line(ledger_line(kind, value)[2:])}\n"
        yield _section(turn_no, text, encoding, value not in in_raw, value not in in_turn)
    if kept.shown is not None:
        in_task = turn_no == open_run_turn and kept.raw is None
        text = _turn_text(_without_task(kept.shown) if in_task else kept.shown, day)
        if text:
            yield _section(turn_no, text, encoding, beside_raw=False, beside_digest=True)


def _without_task(exchange: Exchange) -> Exchange:
    """The first turn of an open run, without the messages that its task shows."""
    kept = [n for n, message in enumerate(exchange.messages) if message.role != "user"]
    return replace(
        exchange,
        messages=tuple(exchange.messages[n] for n in kept),
        message_tokens=tuple(exchange.message_tokens[n] for n in kept),
        views={at: exchange.views[n] for at, n in enumerate(kept) if n in exchange.views},
        viewed={at for at, n in enumerate(kept) if n in exchange.viewed},
    )


def beside_pinned(found: Iterable[Retrieved], pinned: Iterable[Exchange]) -> Iterator[Retrieved]:
    """Of what was found all that these turns do not show whole anyway."""
    whole = {exchange.turn_no: exchange for exchange in pinned}
    for one in found:
        if not whole or not isinstance(one, RetrievedNode) or not one.turns:
            yield one
        elif left := tuple(_unsaid(one.turns, whole)):
            yield one._replace(turns=left)


def pinned_turns(parts: Parts) -> dict[int, int]:
    """Turns that the pinned block shows something of, and its tokens."""
    found: dict[int, int] = {}
    for one in parts.pinned_from(parts.first_raw):
        found[one.turn_no] = found.get(one.turn_no, 0) + one.tokens
    return found


def settled_pins(parts: Parts, *, young: bool) -> tuple[int, bool]:
    """Tokens of the pinned block that stay while turns are added, and whether what follows does.

    Pinned turns join it as they cease to be raw, which those of a `young` branch do not yet.
    """
    first_raw = parts.first_raw
    if young or all(one.turn_no < first_raw for one in parts.pinned):
        return parts.pinned_tokens(first_raw), True
    stay = [one.tokens for one in parts.pinned_from(first_raw) if one.turn_no < first_raw]
    if not stay:
        return 0, False
    frame = frame_tokens(parts.encoding, PINNED_HEAD) - label_tokens(parts.encoding, FOOT)
    return frame + sum(stay), False


def _section(
    turn_no: int, text: str, encoding: str, beside_raw: bool, beside_digest: bool
) -> PinnedSection:
    text = clean(text)
    small = len(text) <= _CACHED_CHARACTERS
    tokens = _count(encoding, text) if small else token_counter(encoding).count(text)
    return PinnedSection(turn_no, text, tokens, beside_raw, beside_digest)


@lru_cache(maxsize=256)
def _count(encoding: str, text: str) -> int:
    """Cached: a pinned turn is the same in every prompt."""
    return token_counter(encoding).count(text)


def _turn_text(exchange: Exchange, day: str) -> str:
    """Every message with who said it."""
    names = {call.id: call.name for message in exchange.messages for call in message.tool_calls}
    label, text = f"[turn {exchange.turn_no}, {day}]", ""
    for message in exchange.shown():
        for line in _lines(message, names):
            text += section(f"{label} {line}")
            label = f"[turn {exchange.turn_no}]"
    return text


def _lines(message: Message, names: dict[str, str]) -> Iterator[str]:
    said = _without_labels(message_text(message))
    if said or not message.tool_calls:
        yield f"{_speaker(message, names)}: {said}"
    for call in message.tool_calls:
        yield f"assistant calls {_without_labels(call_text(call))}"


def _without_labels(text: str) -> str:
    """No line of it can pass for the beginning of another message."""
    return _LABEL.sub(r"\1\2(", text)


def _speaker(message: Message, names: dict[str, str]) -> str:
    if message.role == "tool":
        return f"result of {shown_name(names.get(message.tool_call_id or '', 'a call'))}"
    return f"{message.role} ({shown_name(message.name)})" if message.name else message.role


def _least_text(exchange: Exchange) -> str:
    """What the turn says, at least: all that may be shown as views, as views."""
    short = exchange.viewed if exchange.pinned else exchange.views.keys()
    shown = [
        exchange.views[n].message if n in short else message
        for n, message in enumerate(exchange.messages)
    ]
    texts = [message_text(message) for message in shown]
    return "\n".join([*texts, *(call_text(call) for m in shown for call in m.tool_calls)])


def _unsaid(
    turns: Iterable[RetrievedTurn], whole: Mapping[int | None, Exchange]
) -> Iterator[RetrievedTurn]:
    """The turns with nothing in messages that are shown whole, those with nothing at all left
    out.
    """
    for turn in turns:
        shown = whole.get(turn.turn_no)
        if shown is None:
            yield turn
        elif shown.viewed:
            messages = (
                message if position in shown.viewed else Message(role=message.role)
                for position, message in enumerate(turn.messages)
            )
            yield turn._replace(messages=tuple(messages))
