"""One long conversation made of all conversations: each once as it was said, among copies of them
in which words, names and days are others.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from benchmarks.retrieval.questions import Question, Talk
from durable_context.summarizers.stop_words import STOP_WORDS
from durable_context.transcripts import TranscriptTurn

JsonObject = dict[str, Any]

BAND = 32
"""Words trade places with others that are about as frequent: among the first so many, then among
bands that are twice as wide each time.
"""
RARE = 2
"""Of words that occur at most so often ..."""
COINED = 0.25
"""... this share is another word in each copy that no other copy has."""
APART = timedelta(days=40)
"""Between two copies of a conversation."""
STRANGERS = ("Amara", "Bjorn", "Celeste", "Dmitri", "Elif", "Farid", "Greta", "Hiroshi", "Ines")

_WORD = re.compile(r"[^\W\d_]{3,}")
_SPEAKER = re.compile(r"([^\W\d_]+): ")
_SYLLABLES = ("ba", "den", "ki", "lor", "mu", "nas", "pe", "ri", "sto", "tal", "vo", "zin")


class Part(NamedTuple):
    """A conversation or a copy of one, and what it begins with."""

    talk: Talk
    copy: int
    """Copies that lie between it and its original, which has 0; earlier ones are negative."""
    number: int


@dataclass(frozen=True)
class Lineage:
    """`turns` of the conversations and their copies, and the questions of those that lie within."""

    parts: tuple[Part, ...]
    length: int
    vocabulary: "Vocabulary"

    def turns(self) -> Iterator[TranscriptTurn]:
        left = self.length
        for part in self.parts:
            turns = part.talk.turns[:left]
            yield from turns if part.copy == 0 else self.vocabulary.copied(turns, part)
            left -= len(turns)

    def questions(self) -> list[Question]:
        """Those whose evidence lies within, by its turns in the lineage."""
        asked: list[Question] = []
        begun = 0
        for part in self.parts:
            if part.copy == 0:
                asked += [_later(question, begun) for question in part.talk.questions]
            begun += len(part.talk.turns)
        return [each for each in asked if max(each.turns) <= self.length]


def lineage(talks: Sequence[Talk], turns: int) -> Lineage:
    """The originals lie spread over it in their order, from its beginning to its end."""
    once = sum(len(talk.turns) for talk in talks)
    copies = max(1, -(-turns // once))
    whole = max(1, turns // once)
    originals = _spread(len(talks), whole)
    parts = [
        Part(talk, copy - originals[position], copy * len(talks) + position)
        for copy in range(copies)
        for position, talk in enumerate(talks)
    ]
    return Lineage(tuple(parts), turns, Vocabulary(talks))


def _spread(count: int, copies: int) -> list[int]:
    """So many of the copies' numbers; of one, the middle."""
    if count == 1:
        return [copies // 2]
    return [position * (copies - 1) // (count - 1) for position in range(count)]


def _later(question: Question, turns: int) -> Question:
    evidence = tuple(each._replace(turn_no=each.turn_no + turns) for each in question.evidence)
    return replace(question, evidence=evidence)


class Vocabulary:
    """The words of the conversations by how often they occur, and other words for them: frequent
    words stay frequent, what is talked about changes, and there are always new ones.
    """

    def __init__(self, talks: Sequence[Talk]) -> None:
        texts = [
            message["content"] for talk in talks for turn in talk.turns for message in turn.messages
        ]
        matches = map(_SPEAKER.match, texts)
        self._names = sorted({match[1].lower() for match in matches if match})
        counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
        for word in (*STOP_WORDS, *self._names):
            counts.pop(word, None)
        self._words = sorted(counts, key=lambda word: (-counts[word], word))
        self._rare = [word for word in self._words if counts[word] <= RARE]

    def copied(self, turns: Sequence[TranscriptTurn], part: Part) -> Iterator[TranscriptTurn]:
        renamed = partial(_WORD.sub, _renaming(self._others(part.number)))
        for turn in turns:
            moment = turn.occurred_at and turn.occurred_at + part.copy * APART
            messages = tuple(
                {**message, "content": renamed(message["content"])} for message in turn.messages
            )
            yield turn.model_copy(update={"messages": messages, "occurred_at": moment})

    def _others(self, number: int) -> dict[str, str]:
        """What stands for each word in the part of that number."""
        draw = random.Random(number)
        others: dict[str, str] = {}
        start, width = 0, BAND
        while start < len(self._words):
            band = self._words[start : start + width]
            others |= zip(band, draw.sample(band, len(band)), strict=True)
            start, width = start + width, 2 * width
        for word in self._rare:
            if draw.random() < COINED:
                others[word] = "".join(draw.choices(_SYLLABLES, k=4))
        names = [*self._names, *map(str.lower, STRANGERS)]
        others |= zip(self._names, draw.sample(names, len(self._names)), strict=True)
        return others


def _renaming(others: dict[str, str]) -> Callable[[re.Match[str]], str]:
    def renamed(match: re.Match[str]) -> str:
        word = match[0]
        other = others.get(word.lower(), word)
        return other.capitalize() if word[0].isupper() and other != word else other

    return renamed
