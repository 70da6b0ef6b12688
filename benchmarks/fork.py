"""fork() at the head of branches of several lengths, and prepare() deep in a lineage, each beside
its bare counterpart.
"""

from collections.abc import Awaitable, Callable, Mapping

from benchmarks.corpus import Corpus
from benchmarks.database import Database
from benchmarks.measure import Beside, Candidate, Times, interleaved
from benchmarks.record import INSERT
from durable_context import Branch, Budget
from durable_context.database import acquired
from durable_context.tokens import token_counter

FORK = "fork"
DEEP = 20
PREPARE_DEEP = f"prepare {DEEP} deep"
WARMUP = 10
QUESTION_TOKENS = 10
BUDGET = Budget(max_tokens=32_000)


async def measure_fork(
    database: Database, branches: Mapping[int, Branch], corpus: Corpus, rounds: int
) -> list[Beside]:
    """`bare` is an insert of one small row for fork, prepare() on the root for prepare()."""
    candidates: dict[object, Candidate] = {FORK: _insert(database)}
    for turns, branch in branches.items():
        candidates[FORK, turns] = _fork(branch)
        candidates[PREPARE_DEEP, turns] = _prepare(await _deep(branch), turns, corpus)
        candidates["prepare", turns] = _prepare(branch, turns, corpus)
    seconds = await interleaved(candidates, rounds, warmup=WARMUP)
    times = {name: Times.of(taken) for name, taken in seconds.items()}
    forks = [_beside(turns, FORK, times[FORK, turns], times[FORK]) for turns in branches]
    return forks + [
        _beside(turns, PREPARE_DEEP, times[PREPARE_DEEP, turns], times["prepare", turns])
        for turns in branches
    ]


def _beside(turns: int, kind: str, ours: Times, bare: Times) -> Beside:
    return Beside(turns=turns, kind=kind, ours=ours, bare=bare, size=0, database_ms=ours.p50)


async def _deep(branch: Branch) -> Branch:
    for depth in range(1, DEEP + 1):
        branch = await branch.fork(f"{depth} deep")
    return branch


def _fork(branch: Branch) -> Callable[[int], Awaitable[object]]:
    async def fork(number: int) -> None:
        await branch.fork(f"fork {number}")

    return fork


def _prepare(branch: Branch, turns: int, corpus: Corpus) -> Callable[[int], Awaitable[object]]:
    counter = token_counter("o200k_base")

    async def prepare(number: int) -> None:
        message = corpus.message(number, turns, QUESTION_TOKENS, counter)
        await branch.prepare(message, budget=BUDGET)

    return prepare


def _insert(database: Database) -> Callable[[int], Awaitable[object]]:
    async def insert(number: int) -> None:
        async with acquired(database.pool) as connection:
            await connection.execute(INSERT, f"fork {number}")

    return insert
