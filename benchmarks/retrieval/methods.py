"""The ways in which questions are answered: ours, and what others do."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from benchmarks.baselines import tokens_of
from benchmarks.database import ENCODING
from benchmarks.retrieval.answers import Answer, Asked, Found, Method
from benchmarks.retrieval.evidence import in_one_line
from benchmarks.retrieval.segments import (
    BLOCKS,
    Segment,
    by_bm25,
    by_cover_density,
    segments_of,
    shown,
)
from durable_context import Branch, Budget, PreparedContext
from durable_context.database import Pool
from durable_context.prompts.rendering import RETRIEVED_HEAD, is_record
from durable_context.tokens import token_counter

BUDGET = Budget(max_tokens=32_000)
CUT = 750
"""Tokens that ours may retrieve, and others where they are cut."""

Ranking = Callable[[Pool, Sequence[str], Sequence[str]], Awaitable[list[list[int]]]]


async def asked_of(branch: Branch, question: str) -> Answer:
    """What the next prompt holds for it. The question itself is no part of the prompt here."""
    prepared = await branch.prepare(question, budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    said = prepared.messages[:-1]
    retrieved = [message for message in said if _is_retrieved(message)]
    blocks = tuple(
        Found(block.from_turn or 0, block.to_turn or 0, block.token_count, len(block.source_ids))
        for block in prepared.manifest.blocks
        if block.kind == "retrieved"
    )
    answer = Answer(blocks, _text(retrieved), _text(said))
    counter = token_counter(ENCODING)
    shown_tokens = sum(tokens_of(message, counter) for message in retrieved)
    assert answer.tokens == shown_tokens, "the manifest counts what the messages hold"
    return answer


def _is_retrieved(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return is_record(content) and content.startswith(RETRIEVED_HEAD)


def _text(messages: Sequence[Mapping[str, Any]]) -> str:
    return in_one_line("\n".join(str(message["content"]) for message in messages))


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
            shown([segments[position] for position in best], counter, max_tokens)
            for best in await ranking(asked.database.not_waiting, texts, questions)
        ]

    return answers


async def newest(asked: Asked) -> list[Answer]:
    """The last messages that fit, whatever is asked."""
    counter = token_counter(ENCODING)
    lines = [line for segment in segments_of(asked.talk) for line in segment.lines]
    left, first = CUT, len(lines)
    while first and (left := left - counter.count(lines[first - 1][1])) >= 0:
        first -= 1
    return [_one_block(lines[first:])] * len(asked.talk.questions)


async def best_possible(asked: Asked) -> list[Answer]:
    """The segments that hold most of the evidence: what no ranking of them can exceed."""
    counter = token_counter(ENCODING)
    segments = segments_of(asked.talk)
    answers: list[Answer] = []
    for question in asked.talk.questions:
        holding = Counter(_holding(segments, turn) for turn in question.turns)
        best = [segments[position] for position, _ in holding.most_common(BLOCKS)]
        answers.append(shown(best, counter))
    return answers


async def everything(asked: Asked) -> list[Answer]:
    lines = [line for segment in segments_of(asked.talk) for line in segment.lines]
    return [_one_block(lines)] * len(asked.talk.questions)


def _one_block(lines: Sequence[tuple[int, str]]) -> Answer:
    if not lines:
        return Answer(())
    return shown([Segment(lines[0][0], lines[-1][0], "", tuple(lines))], token_counter(ENCODING))


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
