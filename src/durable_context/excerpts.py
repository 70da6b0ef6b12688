"""Retrieved blocks: a summary's headline and the passages of its turns that answer the query."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from durable_context.messages import call_text
from durable_context.models import Message
from durable_context.prompt_state import RetrievedLeaf, RetrievedTurn
from durable_context.redaction import redact
from durable_context.rendering import FOOT, RETRIEVED_HEAD, turns_label
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import TokenCounter

WHOLE = 600
"""Messages up to this many characters are quoted whole, of longer ones a passage."""
PASSAGE_BEFORE = 150
PASSAGE_AFTER = 400
OCCURRENCES = 3
SPEAKER_CHARACTERS = 64
SMALLEST_PASSAGE = 20
"""Tokens of room below which no further passage is tried."""
HEAVIEST = 12
"""Passages are tried around so many occurrences of each of the so many heaviest terms."""


class RetrievedBlock(NamedTuple):
    """A rendered block for one leaf. Tokens without the overhead of its message."""

    leaf: RetrievedLeaf
    text: str
    tokens: int


class _Passage(NamedTuple):
    score: float
    turn: RetrievedTurn
    position: int
    line: str


def retrieved_block(
    leaf: RetrievedLeaf,
    terms: Mapping[str, float],
    *,
    headline: bool,
    max_tokens: int,
    counter: TokenCounter,
) -> RetrievedBlock | None:
    """The leaf's best passages in the order they were said, or None if not one fits."""
    head = RETRIEVED_HEAD
    if headline:
        head += f"{turns_label(leaf.from_turn, leaf.to_turn)} {leaf.headline}\n"
    tokens = counter.count(head) + counter.count(FOOT)
    heaviest = sorted(terms.items(), key=lambda item: (-item[1], item[0]))[:HEAVIEST]
    chosen: list[_Passage] = []
    for passage in sorted(_passages(leaf, heaviest), key=lambda p: -p.score):
        if max_tokens - tokens < SMALLEST_PASSAGE:
            break
        size = counter.count(passage.line)
        if tokens + size <= max_tokens:
            tokens += size
            chosen.append(passage)
    if not chosen:
        return None
    chosen.sort(key=lambda passage: (passage.turn.turn_no, passage.position))
    text = head + "".join(passage.line for passage in chosen) + FOOT
    return RetrievedBlock(leaf, text, tokens)


def _passages(leaf: RetrievedLeaf, terms: Sequence[tuple[str, float]]) -> list[_Passage]:
    found: list[_Passage] = []
    for turn in leaf.turns:
        for position, message in enumerate(turn.messages):
            best = _best_passage(_quotable(message), terms)
            if best is None:
                continue
            score, passage = best
            speaker = one_line(clean(message.name or message.role))[:SPEAKER_CHARACTERS]
            date = f"{turn.occurred_at:%Y-%m-%d}"
            line = f"[turn {turn.turn_no}, {date}] {speaker}: {one_line(redact(passage))}\n"
            found.append(_Passage(score, turn, position, line))
    return found


def _quotable(message: Message) -> str:
    return clean(" ".join([message_text(message), *(call_text(c) for c in message.tool_calls)]))


def _best_passage(text: str, terms: Sequence[tuple[str, float]]) -> tuple[float, str] | None:
    """The passage with the heaviest terms, and their weight; None if no term occurs."""
    lowered = text.lower()
    places = [(place, term, weight) for term, weight in terms for place in _find(lowered, term)]
    if not places:
        return None
    if len(text) <= WHOLE:
        return sum({term: weight for _, term, weight in places}.values()), text.strip()
    return max(
        (_window(text, places, place) for place, _, _ in places), key=lambda window: window[0]
    )


def _find(lowered: str, term: str) -> list[int]:
    places: list[int] = []
    start = lowered.find(term)
    while start >= 0 and len(places) < OCCURRENCES:
        places.append(start)
        start = lowered.find(term, start + 1)
    return places


def _window(text: str, places: list[tuple[int, str, float]], around: int) -> tuple[float, str]:
    start, end = max(0, around - PASSAGE_BEFORE), min(len(text), around + PASSAGE_AFTER)
    weights = {term: weight for place, term, weight in places if start <= place < end}
    while start > 0 and not text[start - 1].isspace() and around - start < 2 * PASSAGE_BEFORE:
        start -= 1
    while end < len(text) and not text[end].isspace() and end - around < 2 * PASSAGE_AFTER:
        end += 1
    before, after = "… " if start else "", " …" if end < len(text) else ""
    return sum(weights.values()), f"{before}{text[start:end].strip()}{after}"
