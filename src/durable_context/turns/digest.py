"""One line that stands in for a turn, made by rule: what was asked, done and answered."""

from collections.abc import Iterator, Sequence
from typing import Final

from durable_context.models import Message, Outcome
from durable_context.text import ELLIPSIS, clean, message_text, shorten
from durable_context.tokens import TokenCounter
from durable_context.turns.deeds import chosen_deeds, deeds_of
from durable_context.turns.informative import chosen, pieces_of

_WEIGHTS: Final = {"Asked": 4, "Did": 4, "Answered": 3, "Said": 3}
_OUTCOMES: Final[dict[Outcome, str]] = {
    "complete": "",
    "interrupted": "Interrupted before it ended.",
    "failed": "Failed.",
}
_CONTINUES: Final = "The run goes on."


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
    room = max_tokens - (counter.count(" " + ending) if ending else 0)
    fitted = (_labelled(name, text) for name, text in _fitted(messages, room, counter))
    line = " ".join(filter(None, [*fitted, ending]))
    return shorten(clean(line or "Empty turn."), max_tokens, counter)


def _fitted(
    messages: Sequence[Message], room: int, counter: TokenCounter
) -> Iterator[tuple[str, str]]:
    """Each part cut to its share of the room; what one leaves goes to the others."""
    parts = {name: pieces for name, pieces in _parts(messages) if pieces}
    whole = {name: ("; " if name == "Did" else " ").join(parts[name]) for name in parts}
    sizes = {name: counter.count_to(_labelled(name, whole[name]), room) + 1 for name in parts}
    shares = _shares(sizes, room)
    for name, pieces in parts.items():
        if sizes[name] <= shares[name]:
            yield name, whole[name]
            continue
        inner = shares[name] - counter.count(f"{name}: .") - 1
        if name == "Did":
            text = chosen_deeds(messages, inner, counter)
        else:
            text = chosen(pieces, inner, counter, asked=name == "Asked")
        if text:
            yield name, text


def _parts(messages: Sequence[Message]) -> Iterator[tuple[str, list[str]]]:
    """What each part says when there is room for all of it, in pieces."""
    yield "Asked", pieces_of("\n".join(message_text(m) for m in messages if m.role == "user"))
    yield "Did", [deed.text() for deed in deeds_of(messages)]
    for message in reversed(messages):
        if message.role == "assistant" and (pieces := pieces_of(message_text(message))):
            answers = not message.tool_calls and len(messages) > 1
            yield "Answered" if answers else "Said", pieces
            return


def _shares(sizes: dict[str, int], room: int) -> dict[str, int]:
    shares: dict[str, int] = {}
    names = sorted(sizes, key=lambda name: sizes[name] / _WEIGHTS[name])
    for index, name in enumerate(names):
        weight = sum(_WEIGHTS[other] for other in names[index:])
        shares[name] = min(sizes[name], room * _WEIGHTS[name] // weight)
        room -= shares[name]
    return shares


def _labelled(name: str, text: str) -> str:
    text = text.rstrip(" :;,")
    ends = text.endswith((".", "!", "?", ELLIPSIS, "。", "！", "？"))
    return f"{name}: {text}" if ends else f"{name}: {text}."
