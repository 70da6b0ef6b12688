"""What a method brings for a question, and the score it gets."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from benchmarks.database import Database
from benchmarks.retrieval.evidence import held
from benchmarks.retrieval.questions import Question, Talk
from durable_context import Branch


class Found(NamedTuple):
    """A block that was retrieved. `sources`: the documents it is made of."""

    from_turn: int
    to_turn: int
    tokens: int
    sources: int = 1

    @property
    def turns(self) -> range:
        return range(self.from_turn, self.to_turn + 1)


class Answer(NamedTuple):
    """`text`: of the blocks; `prompt`: all that the model would read, None where that is the same.
    Both are in one line.
    """

    blocks: tuple[Found, ...]
    text: str = ""
    prompt: str | None = None

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)

    @property
    def turns(self) -> frozenset[int]:
        return frozenset(turn for block in self.blocks for turn in block.turns)


@dataclass(frozen=True)
class Asked:
    """A recorded and compacted conversation whose questions are to be answered."""

    database: Database
    branch: Branch
    talk: Talk


Method = Callable[[Asked], Awaitable[Sequence[Answer]]]
"""Answers the questions of a conversation, in their order. What is to be compared with what is
here, such as another ranking of the same blocks, is one more of these.
"""


class Score(NamedTuple):
    """Shares are of the question's evidence: of its turns in `recall`, of its messages elsewhere.

    `quoted`, `whole`: in the text of the retrieved blocks, in part or whole. `present`: in the
    prompt.
    """

    category: str
    recall: float
    hit: float
    quoted: float
    whole: float
    present: float
    tokens: int
    blocks: int
    sources: int
    turns: int


def score(question: Question, answer: Answer) -> Score:
    wanted, turns = question.turns, answer.turns
    blocks = held(question.evidence, answer.text)
    prompt = blocks if answer.prompt is None else held(question.evidence, answer.prompt)
    return Score(
        category=question.category,
        recall=len(wanted & turns) / len(wanted),
        hit=float(not wanted.isdisjoint(turns)),
        quoted=blocks.part,
        whole=blocks.whole,
        present=prompt.part,
        tokens=answer.tokens,
        blocks=len(answer.blocks),
        sources=sum(block.sources for block in answer.blocks),
        turns=len(turns),
    )


@dataclass
class Tally:
    """The scores of one method."""

    scores: list[Score]

    @property
    def without_block(self) -> int:
        return sum(not each.blocks for each in self.scores)

    def of(self, category: str | None) -> "Tally":
        """None: of all."""
        return Tally([each for each in self.scores if category in (None, each.category)])

    def mean(self, figure: Callable[[Score], float]) -> float:
        return fmean(map(figure, self.scores)) if self.scores else 0.0

    def percentile(self, share: float) -> int:
        """Of the retrieved tokens."""
        ordered = sorted(each.tokens for each in self.scores)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0
