"""Excerpts: messages of retrieved turns, and the passages of long ones that a query asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from durable_context.models import Message
from durable_context.prompts.retrieved import RetrievedNode, RetrievedTurn
from durable_context.prompts.term_places import places
from durable_context.quoting import quoted
from durable_context.redaction import redact
from durable_context.text import clean, message_text, one_line
from durable_context.turns.messages import call_text

WHOLE = 600
"""Messages up to this many characters are quoted whole, of longer ones a passage."""
PASSAGE_BEFORE = 150
PASSAGE_AFTER = 400
WORD = 40
"""A passage ends with a word if that ends within so many characters."""
SPEAKER_CHARACTERS = 64
HEAVIEST = 12
"""Passages are tried around occurrences of the so many heaviest terms."""
BESIDE = 0.5
"""What is said beside a message that answers the query is worth this share of it."""
NOISE = 0.05
"""Messages that answer less than this share of the best of their leaf are not quoted."""
OF_DOCUMENT = 0.5
"""Share of a document's score in the worth of each of its excerpts."""

Terms = Sequence[tuple[str, float]]


class TurnPassage(NamedTuple):
    """`text[start:end]` of the message at `position`."""

    score: float
    turn: RetrievedTurn
    position: int
    text: str
    start: int
    end: int

    def line(self) -> str:
        """The passage on one line, with turn and day and without secrets."""
        return f"{_label(self.turn)}{self.said()}"

    def said(self) -> str:
        """The line without turn and day."""
        message = self.turn.messages[self.position]
        speaker = one_line(redact(clean(message.name or message.role)))[:SPEAKER_CHARACTERS]
        before = "… " if self.start else ""
        after = " …" if self.end < len(self.text) else ""
        said = f"{before}{quoted(self.text, self.start, self.end).strip()}{after}"
        return f"{speaker}: {one_line(said)}\n"


@dataclass(frozen=True)
class MessageExcerpt:
    """A message of a leaf, to be quoted. Of a long one the passage is looked for when needed."""

    worth: float
    turn: RetrievedTurn
    position: int
    terms: Terms

    @property
    def order(self) -> tuple[int, int]:
        return self.turn.turn_no, self.position

    @property
    def day(self) -> str:
        return f"{self.turn.occurred_at:%Y-%m-%d}"

    @property
    def alongside(self) -> int:
        return sum(bool(_quotable(message)) for message in self.turn.messages)

    def line(self, *, labelled: bool, dated: bool, partial: bool) -> str:
        label = _label(self.turn, dated=dated, partial=partial) if labelled else ""
        return f"{label}{self._said}" if self._said else ""

    @cached_property
    def _said(self) -> str:
        text = _quotable(self.turn.messages[self.position])
        if not text:
            return ""
        start, end = 0, len(text)
        if len(text) > WHOLE:
            best = _best_passage(text, self.terms)
            _, start, end = best or _window(text, [], 0)
        return TurnPassage(self.worth, self.turn, self.position, text, start, end).said()


def heaviest_of(terms: Mapping[str, float]) -> list[tuple[str, float]]:
    """The terms that passages are looked for around."""
    heaviest = sorted(terms.items(), key=lambda item: (-item[1], item[0]))[:HEAVIEST]
    return [(term.lstrip("="), weight) for term, weight in heaviest]


def message_excerpts(leaf: RetrievedNode, terms: Terms) -> Iterator[MessageExcerpt]:
    """Messages of the leaf that answer the query, and those beside them."""
    spoken = leaf.spoken
    least = NOISE * max(spoken.values(), default=0.0)
    for turn in leaf.turns:
        for position in range(len(turn.messages)):
            place = turn.before + position + 1
            beside = max(spoken.get(place - 1, 0.0), spoken.get(place + 1, 0.0))
            worth = max(spoken.get(place, 0.0), BESIDE * beside)
            if worth > least:
                yield MessageExcerpt(worth + OF_DOCUMENT * leaf.score, turn, position, terms)


def turn_passages(turns: Sequence[RetrievedTurn], terms: Terms) -> list[TurnPassage]:
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


def _label(turn: RetrievedTurn, *, dated: bool = True, partial: bool = False) -> str:
    date = f", {turn.occurred_at:%Y-%m-%d}" if dated else ""
    return f"[turn {turn.turn_no}{date}{' …' if partial else ''}] "


def _quotable(message: Message) -> str:
    said = [message_text(message), *(call_text(call) for call in message.tool_calls)]
    return clean(" ".join(filter(None, said)))


def _best_passage(text: str, terms: Terms) -> tuple[float, int, int] | None:
    """The passage with the heaviest terms: their weight, its start and end; None if no term
    occurs.
    """
    lowered = text.lower()
    found = [
        (place, term, weight) for term, weight in terms for place in places(text, lowered, term)
    ]
    if not found:
        return None
    if len(text) <= WHOLE:
        return sum({term: weight for _, term, weight in found}.values()), 0, len(text)
    return max((_window(text, found, place) for place, _, _ in found), key=lambda window: window[0])


def _window(text: str, found: list[tuple[int, str, float]], around: int) -> tuple[float, int, int]:
    start, end = max(0, around - PASSAGE_BEFORE), min(len(text), around + PASSAGE_AFTER)
    weights = {term: weight for place, term, weight in found if start <= place < end}
    while start > 0 and not text[start - 1].isspace() and around - start < PASSAGE_BEFORE + WORD:
        start -= 1
    while end < len(text) and not text[end].isspace() and end - around < PASSAGE_AFTER + WORD:
        end += 1
    return sum(weights.values()), start, end
