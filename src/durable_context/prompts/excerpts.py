"""Retrieved blocks: a summary's headline and the passages of its turns that answer the query."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from durable_context.models import Message
from durable_context.prompts.rendering import FOOT, RETRIEVED_HEAD, turns_label
from durable_context.prompts.state import RetrievedLeaf, RetrievedTurn
from durable_context.quoting import quoted
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import TokenCounter
from durable_context.turns.messages import call_text

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
    """A rendered block of one leaf or artifact. Tokens without the overhead of its message."""

    from_turn: int
    to_turn: int
    source_id: str
    text: str
    tokens: int


class TurnPassage(NamedTuple):
    """`text[start:end]` of the message at `position`."""

    score: float
    turn: RetrievedTurn
    position: int
    text: str
    start: int
    end: int

    def line(self) -> str:
        """The passage on one line, without secrets."""
        message = self.turn.messages[self.position]
        speaker = one_line(clean(message.name or message.role))[:SPEAKER_CHARACTERS]
        before = "… " if self.start else ""
        after = " …" if self.end < len(self.text) else ""
        said = f"{before}{quoted(self.text, self.start, self.end).strip()}{after}"
        date = f"{self.turn.occurred_at:%Y-%m-%d}"
        return f"[turn {self.turn.turn_no}, {date}] {speaker}: {one_line(said)}\n"


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
    heaviest = heaviest_of(terms)
    chosen: list[tuple[int, int, str]] = []
    for passage in sorted(turn_passages(leaf.turns, heaviest), key=lambda p: -p.score):
        if max_tokens - tokens < SMALLEST_PASSAGE:
            break
        line = passage.line()
        size = counter.count(line)
        if tokens + size <= max_tokens:
            tokens += size
            chosen.append((passage.turn.turn_no, passage.position, line))
    if not chosen:
        return None
    text = head + "".join(line for _, _, line in sorted(chosen)) + FOOT
    return RetrievedBlock(leaf.from_turn, leaf.to_turn, leaf.summary_id, text, tokens)


def heaviest_of(terms: Mapping[str, float]) -> list[tuple[str, float]]:
    """The terms that passages are looked for around."""
    return sorted(terms.items(), key=lambda item: (-item[1], item[0]))[:HEAVIEST]


def turn_passages(
    turns: Sequence[RetrievedTurn], terms: Sequence[tuple[str, float]]
) -> list[TurnPassage]:
    """Of each message that holds a term the best passage, in the order they were said."""
    found: list[TurnPassage] = []
    for turn in turns:
        for position, message in enumerate(turn.messages):
            text = _quotable(message)
            best = _best_passage(text, terms)
            if best is not None:
                score, start, end = best
                found.append(TurnPassage(score, turn, position, text, start, end))
    return found


def _quotable(message: Message) -> str:
    return clean(" ".join([message_text(message), *(call_text(c) for c in message.tool_calls)]))


def _best_passage(text: str, terms: Sequence[tuple[str, float]]) -> tuple[float, int, int] | None:
    """The passage with the heaviest terms: their weight, its start and end; None if no term
    occurs.
    """
    lowered = text.lower()
    places = [(place, term, weight) for term, weight in terms for place in _find(lowered, term)]
    if not places:
        return None
    if len(text) <= WHOLE:
        return sum({term: weight for _, term, weight in places}.values()), 0, len(text)
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


def _window(text: str, places: list[tuple[int, str, float]], around: int) -> tuple[float, int, int]:
    start, end = max(0, around - PASSAGE_BEFORE), min(len(text), around + PASSAGE_AFTER)
    weights = {term: weight for place, term, weight in places if start <= place < end}
    while start > 0 and not text[start - 1].isspace() and around - start < 2 * PASSAGE_BEFORE:
        start -= 1
    while end < len(text) and not text[end].isspace() and end - around < 2 * PASSAGE_AFTER:
        end += 1
    return sum(weights.values()), start, end
