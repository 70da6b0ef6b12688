"""prepare() beside a prepared statement that fetches the same bytes by an integer key."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.corpus import Corpus
from benchmarks.database import ENCODING, Database
from benchmarks.measure import Beside, Candidate, Times, interleaved, seconds_of
from benchmarks.statements import Statements, content_of
from durable_context import Branch, Budget, CompactionPolicy, PreparedContext
from durable_context.database import acquired
from durable_context.tokens import token_counter

NO_RETRIEVAL = "none"
"""The kind of call in which nothing is searched for; others are named by what is searched with."""
MESSAGE_TOKENS: Mapping[str, int] = {
    NO_RETRIEVAL: 10,
    "10 tokens": 10,
    "100 tokens": 100,
}
MESSAGES = 50
"""Different user messages, in turn: ranking costs what the terms of each cost."""
BUDGET = Budget(
    max_tokens=32_000,
    reserve_output=1_000,
    instructions="You help the operations team. Look things up before you answer, name the order "
    "you speak of, and say so when you do not know.",
)
FETCH = "select content from bare.documents where key = $1"


@dataclass
class _Case:
    """A branch of so many turns asked in one way; the messages' rows have keys from `first_key`."""

    branch: Branch
    turns: int
    kind: str
    messages: Sequence[str]
    first_key: int
    size: int = 0
    database_share: float = 0.0

    async def prepare(self, number: int) -> None:
        prepared = await self.branch.prepare(self.messages[number % MESSAGES], budget=BUDGET)
        assert isinstance(prepared, PreparedContext)


async def measure_prepare(
    database: Database, branches: Mapping[int, Branch], corpus: Corpus, rounds: int
) -> list[Beside]:
    """Every size and kind in the same rounds: a drift of the machine spoils no comparison."""
    cases = [
        await _case(database, branch, turns, kind, corpus, number)
        for number, (turns, branch, kind) in enumerate(
            (turns, branch, kind) for turns, branch in branches.items() for kind in MESSAGE_TOKENS
        )
    ]
    candidates: dict[tuple[int, bool], Candidate] = {}
    for number, case in enumerate(cases):
        candidates[number, True] = case.prepare
        candidates[number, False] = _fetch(database, case)
    seconds = await interleaved(candidates, rounds, warmup=MESSAGES)
    return [
        Beside(
            turns=case.turns,
            kind=case.kind,
            ours=(ours := Times.of(seconds[number, True])),
            bare=Times.of(seconds[number, False]),
            size=case.size,
            database_ms=case.database_share * ours.p50,
        )
        for number, case in enumerate(cases)
    ]


async def _case(
    database: Database, branch: Branch, turns: int, kind: str, corpus: Corpus, number: int
) -> _Case:
    policy = CompactionPolicy(retrieved_blocks=0) if kind == NO_RETRIEVAL else CompactionPolicy()
    asked = await database.client(policy).find_branch(branch.conversation_id)
    counter = token_counter(ENCODING)
    messages = [
        corpus.message(each, turns, MESSAGE_TOKENS[kind], counter) for each in range(MESSAGES)
    ]
    case = _Case(asked, turns, kind, messages, first_key=number * MESSAGES)
    await _store_what_it_reads(database, case)
    return case


async def _store_what_it_reads(database: Database, case: _Case) -> None:
    """A row for each message with the bytes its prepare() reads. Notes who takes the time, too."""
    documents: list[tuple[int, str]] = []
    shares: list[float] = []
    for number in range(MESSAGES):
        text, _ = await _watched(database, case, number)
        documents.append((case.first_key + number, text))
    for number in range(MESSAGES):  # again, now that statements are prepared and caches warm
        shares.append((await _watched(database, case, number))[1])
    async with acquired(database.pool) as connection:
        await connection.executemany("insert into bare.documents values ($1, $2)", documents)
    case.size = round(median(len(text.encode()) for _, text in documents))
    case.database_share = median(shares)


async def _watched(database: Database, case: _Case, number: int) -> tuple[str, float]:
    """What one prepare() reads, as text, and the share of its time spent in statements."""
    async with Statements(database.pool) as statements:
        seconds = await seconds_of(case.prepare(number))
        seen = await statements.drain()
    text: list[str] = []
    async with acquired(database.pool) as connection:
        for statement in seen:
            for row in await connection.fetch(statement.query, *statement.args):
                text.extend(content_of(value) for value in row)
    return "".join(text), sum(statement.elapsed for statement in seen) / seconds


def _fetch(database: Database, case: _Case) -> Callable[[int], Awaitable[None]]:
    async def fetch(number: int) -> None:
        async with acquired(database.pool) as connection:
            row = await connection.fetchrow(FETCH, case.first_key + number % MESSAGES)
        assert row is not None

    return fetch
