"""What is found where all postings are read, and what where bounds say how many."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from benchmarks.database import TENANT
from benchmarks.retrieval.questions import Question
from durable_context import Branch
from durable_context.database import Pool, acquired
from durable_context.prompts.query import read_prompt
from durable_context.prompts.ranking_query import BOUNDS, Bounds
from durable_context.prompts.retrieved import RetrievedNode, read_retrieved
from durable_context.prompts.term_query import QUERY_TERMS
from durable_context.search_queries import search_query

EXACT: Final = Bounds(terms=QUERY_TERMS, whole=1_000_000_000, newest=1_000_000_000, candidates=200)
"""All postings are read; of the candidates so many, the best, are scored with their messages."""
BEST: Final = 3


class Compared(NamedTuple):
    """Means over what was asked. `same`: the share of the best three of the exact ranking that the
    bounded one has; the recalls are of evidence, None where none is known.
    """

    where: str
    kind: str
    asked: int
    same: float
    exact: float | None
    bounded: float | None

    @property
    def lost(self) -> float:
        """Points of recall, or of agreement where there is no evidence."""
        if self.exact is None or self.bounded is None:
            return 100 * (1 - self.same)
        return 100 * (self.exact - self.bounded)


async def compare_questions(
    pool: Pool, branch: Branch, where: str, kind: str, questions: Sequence[Question]
) -> Compared:
    """Both rankings of each question, and how much of its evidence the best three cover."""
    exact: list[float] = []
    bounded: list[float] = []
    same: list[float] = []
    for question in questions:
        all_of_it, part = await _both(pool, branch, question.text)
        exact.append(_recall(question, all_of_it))
        bounded.append(_recall(question, part))
        same.append(_agreement(all_of_it, part))
    return Compared(where, kind, len(same), _mean(same), _mean(exact), _mean(bounded))


async def compare_messages(
    pool: Pool, branch: Branch, where: str, kind: str, messages: Sequence[str]
) -> Compared:
    same = [_agreement(*await _both(pool, branch, message)) for message in messages]
    return Compared(where, kind, len(same), _mean(same), None, None)


async def _both(
    pool: Pool, branch: Branch, text: str
) -> tuple[list[RetrievedNode], list[RetrievedNode]]:
    return await best_of(pool, branch, text, EXACT), await best_of(pool, branch, text, BOUNDS)


async def best_of(pool: Pool, branch: Branch, text: str, bounds: Bounds) -> list[RetrievedNode]:
    """The best three of the hits, before they are joined and cut to excerpts."""
    policy, query = branch.policy, search_query(text)
    arguments: list[Any] = [TENANT, branch.branch_uuid, policy.keep_raw_turns]
    arguments += [policy.segment_turns + policy.keep_raw_turns]
    arguments += [policy.run_raw_tokens, policy.raw_result_tokens, query.text]
    arguments += [list(query.terms), list(query.weights), query.context_weight, BEST]
    async with acquired(pool) as connection:
        row = await connection.fetchrow(read_prompt(bounds), *arguments)
    assert row is not None
    found = read_retrieved(row["nodes"], None)
    return [each for each in found if isinstance(each, RetrievedNode)][:BEST]


def _recall(question: Question, found: Sequence[RetrievedNode]) -> float:
    held = {turn for turn in question.turns if any(_covers(node, turn) for node in found)}
    return len(held) / len(question.turns)


def _covers(node: RetrievedNode, turn: int) -> bool:
    return node.from_turn <= turn <= node.to_turn


def _agreement(exact: Sequence[RetrievedNode], bounded: Sequence[RetrievedNode]) -> float:
    if not exact:
        return float(not bounded)
    wanted = {(node.level, node.from_turn) for node in exact}
    return len(wanted & {(node.level, node.from_turn) for node in bounded}) / len(wanted)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
