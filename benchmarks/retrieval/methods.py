"""The ways in which questions are answered: ours, and what others do."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from benchmarks.database import ENCODING
from benchmarks.retrieval.answers import Answer, Asked, Found, Method, found
from benchmarks.retrieval.evidence import in_one_line
from benchmarks.retrieval.segments import (
    BLOCKS,
    Segment,
    by_bm25,
    by_cover_density,
    segments_of,
    within,
)
from durable_context import Branch, Budget, PreparedContext
from durable_context.database import Pool
from durable_context.prompts.rendering import is_record
from durable_context.tokens import token_counter

BUDGET = Budget(max_tokens=32_000)
CUT = 750
"""Tokens that ours may retrieve, and others where they are cut."""

Ranking = Callable[[Pool, Sequence[str], Sequence[str]], Awaitable[list[list[int]]]]


async def asked_of(branch: Branch, question: str) -> Answer:
    """What the next prompt holds for it. The question itself is no part of the prompt here."""
    prepared = await branch.prepare(question, budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    *before, _ = (str(message["content"]) for message in prepared.messages)
    retrieved = [block for block in prepared.manifest.blocks if block.kind == "retrieved"]
    texts = before[len(before) - len(retrieved) :]
    assert all(map(is_record, texts)), "a retrieved block is a message of its own, before the last"
    return Answer(
        tuple(
            found(block.from_turn or 0, block.to_turn or 0, block.token_count, text)
            for block, text in zip(retrieved, texts, strict=True)
        ),
        in_one_line("\n".join(before)),
    )


async def ours(asked: Asked) -> list[Answer]:
    return [await asked_of(asked.branch, question.text) for question in asked.talk.questions]


def ranked(ranking: Ranking, max_tokens: int | None) -> Method:
    """The best segments, whole or cut to so many tokens."""

    async def answers(asked: Asked) -> list[Answer]:
        counter = token_counter(ENCODING)
        segments = segments_of(asked.talk)
        texts = [segment.text for segment in segments]
        questions = [question.text for question in asked.talk.questions]
        return [
            Answer(within([segments[position] for position in best], max_tokens, counter))
            for best in await ranking(asked.database.not_waiting, texts, questions)
        ]

    return answers


async def newest(asked: Asked) -> list[Answer]:
    """The last messages that fit, whatever is asked."""
    counter = token_counter(ENCODING)
    lines = [line for segment in segments_of(asked.talk) for line in segment.lines]
    left, shown = CUT, len(lines)
    while shown and (left := left - counter.count(lines[shown - 1][1])) >= 0:
        shown -= 1
    answer = Answer((_one_block(lines[shown:]),)) if shown < len(lines) else Answer(())
    return [answer] * len(asked.talk.questions)


async def best_possible(asked: Asked) -> list[Answer]:
    """The segments that hold most of the evidence: what no ranking of them can exceed."""
    counter = token_counter(ENCODING)
    segments = segments_of(asked.talk)
    answers: list[Answer] = []
    for question in asked.talk.questions:
        holding = Counter(_holding(segments, turn) for turn in question.turns)
        best = [segments[position] for position, _ in holding.most_common(BLOCKS)]
        answers.append(Answer(within(best, None, counter)))
    return answers


async def everything(asked: Asked) -> list[Answer]:
    lines = [line for segment in segments_of(asked.talk) for line in segment.lines]
    return [Answer((_one_block(lines),))] * len(asked.talk.questions)


def _one_block(lines: Sequence[tuple[int, str]]) -> Found:
    counter = token_counter(ENCODING)
    tokens = sum(counter.count(line) for _, line in lines)
    return found(lines[0][0], lines[-1][0], tokens, "".join(line for _, line in lines))


def _holding(segments: Sequence[Segment], turn_no: int) -> int:
    return next(n for n, segment in enumerate(segments) if turn_no <= segment.to_turn)


OURS = "durable context"
BM25 = "BM25"
METHODS: Mapping[str, Method] = {
    OURS: ours,
    BM25: ranked(by_bm25, None),
    f"BM25, {CUT}": ranked(by_bm25, CUT),
    "ts_rank_cd": ranked(by_cover_density, None),
    f"ts_rank_cd, {CUT}": ranked(by_cover_density, CUT),
    f"newest, {CUT}": newest,
    "best 3 segments": best_possible,
    "everything": everything,
}
