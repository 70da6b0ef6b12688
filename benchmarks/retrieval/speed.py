"""What retrieval takes in a long lineage beside a short one, and what its bounds lose."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final, NamedTuple

from benchmarks.database import ENCODING, Database, Report
from benchmarks.measure import Candidate, interleaved
from benchmarks.retrieval.lineage import Lineage, lineage
from benchmarks.retrieval.lineage_rows import stored
from benchmarks.retrieval.methods import BUDGET
from benchmarks.retrieval.questions import Question, Talk
from benchmarks.retrieval.speed_bounds import Compared, compare_messages, compare_questions
from durable_context import Branch, CompactionPolicy
from durable_context.tokens import TokenCounter, token_counter

SHORT: Final = 600
FORKED_AT: Final = 5_000
MESSAGES: Final = 100
MESSAGE_TOKENS: Final = 100
JOINED: Final = 20
WARMUP: Final = 20
COMPARED: Final = 250
"""Questions that are ranked exactly, too, which takes a tenth of a second each."""

QUESTIONS: Final = "LoCoMo's questions"
LONG_MESSAGES: Final = f"{MESSAGE_TOKENS}-token messages"
NO_RETRIEVAL: Final = "no retrieval"


class Spread(NamedTuple):
    """Milliseconds of one call."""

    p50: float
    p95: float
    p99: float
    samples: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Spread":
        ordered = sorted(1000 * each for each in seconds)
        last = len(ordered) - 1
        p95, p99 = (ordered[min(last, int(share * len(ordered)))] for share in (0.95, 0.99))
        return cls(median(ordered), p95, p99, len(ordered))


@dataclass(frozen=True)
class Speed:
    """`times` by kind of call and turns of the lineage."""

    short: int
    long: int
    times: Mapping[tuple[str, int], Spread]
    compared: Sequence[Compared]

    def ratio(self, kind: str) -> float:
        return self.times[kind, self.long].p50 / self.times[kind, self.short].p50


async def measure_speed(
    database: Database,
    talks: Sequence[Talk],
    turns: int,
    rounds: int,
    report: Report,
) -> Speed:
    """Of a lineage of so many turns, and of a fork of it."""
    short, long = min(SHORT, turns // 2), lineage(talks, turns)
    once = lineage(talks, min(turns, sum(len(talk.turns) for talk in talks)))
    asked = {
        short: await _stored(database, lineage(talks, short), report),
        turns: await _stored(database, long, report),
    }
    joined = await _stored(database, once, report)
    await database.settle()
    messages = long_messages(talks, token_counter(ENCODING))
    times = await _times(database, asked, long.questions(), messages, rounds)
    report(f"measured {rounds:,} rounds")
    compared = [
        await _questions_compared(database, joined, once, "joined"),
        await _questions_compared(database, asked[turns], long, f"{turns:,} turns"),
        await _messages_compared(database, asked[turns], messages, f"{turns:,} turns"),
    ]
    if turns > FORKED_AT:
        fork = await asked[turns].fork("fork", at_turn=FORKED_AT)
        where = f"fork at {FORKED_AT:,}"
        within = Lineage(long.parts, FORKED_AT, long.vocabulary)
        compared.append(await _questions_compared(database, fork, within, where))
        compared.append(await _messages_compared(database, fork, messages, where))
    return Speed(short, turns, times, compared)


async def _stored(database: Database, long: Lineage, report: Report) -> Branch:
    return await stored(database, f"{long.length} turns", long, report)


def long_messages(talks: Sequence[Talk], counter: TokenCounter) -> list[str]:
    """A question and what users said here and there, cut to 100 tokens."""
    draw = random.Random(0)
    said = [
        message["content"].partition(": ")[2]
        for talk in talks
        for turn in talk.turns
        for message in turn.messages
        if message["role"] == "user"
    ]
    asked = [question.text for talk in talks for question in talk.questions]
    return [
        _cut(" ".join([draw.choice(asked), *draw.choices(said, k=JOINED)]), counter)
        for _ in range(MESSAGES)
    ]


def _cut(text: str, counter: TokenCounter) -> str:
    words = text.split()[:MESSAGE_TOKENS]
    while counter.count(" ".join(words)) > MESSAGE_TOKENS:
        words.pop()
    return " ".join(words)


async def _times(
    database: Database,
    asked: Mapping[int, Branch],
    questions: Sequence[Question],
    messages: Sequence[str],
    rounds: int,
) -> dict[tuple[str, int], Spread]:
    """Every size and kind in the same rounds: a drift of the machine spoils no comparison."""
    texts = [question.text for question in questions]
    random.Random(0).shuffle(texts)
    candidates: dict[tuple[str, int], Candidate] = {}
    for turns, branch in asked.items():
        bare = await database.client(CompactionPolicy(retrieved_blocks=0)).find_branch(
            branch.conversation_id
        )
        here = await database.client().find_branch(branch.conversation_id)
        candidates[QUESTIONS, turns] = partial(_prepare, here, texts)
        candidates[LONG_MESSAGES, turns] = partial(_prepare, here, messages)
        candidates[NO_RETRIEVAL, turns] = partial(_prepare, bare, texts)
    seconds = await interleaved(candidates, rounds, warmup=WARMUP)
    return {name: Spread.of(taken) for name, taken in seconds.items()}


async def _prepare(branch: Branch, texts: Sequence[str], number: int) -> None:
    await branch.prepare(texts[number % len(texts)], budget=BUDGET)


async def _questions_compared(
    database: Database, branch: Branch, long: Lineage, where: str
) -> Compared:
    asked = long.questions()
    some = random.Random(0).sample(asked, min(COMPARED, len(asked)))
    return await compare_questions(database.pool, branch, where, QUESTIONS, some)


async def _messages_compared(
    database: Database, branch: Branch, messages: Sequence[str], where: str
) -> Compared:
    return await compare_messages(database.pool, branch, where, LONG_MESSAGES, messages)
