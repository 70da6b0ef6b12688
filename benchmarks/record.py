"""record_turn() beside a bare insert and commit of the same messages as text."""

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.corpus import LARGE_ROWS, TYPICAL_ROWS, Corpus, Turn
from benchmarks.database import Database, Report, record
from benchmarks.measure import Beside, Candidate, Times, interleaved, seconds_of
from benchmarks.statements import Statements
from durable_context import Branch
from durable_context.database import acquired
from durable_context.stored_json import dumps

ROWS: Mapping[str, int] = {"1 KB": TYPICAL_ROWS, "8 KB": LARGE_ROWS}
WATCHED = 40
WARMUP = 20
INSERT = "insert into bare.turns (messages) values ($1)"
# As many rows as the longest branch has, so that the index is as deep.
_FILL = """
insert into bare.turns (messages)
select messages::text from durable_context.turns where branch_uuid = $1 order by turn_no
"""


@dataclass
class _Supply:
    """Branches of about so many turns: one is left for the next when it has grown too much."""

    turns: int
    branches: list[Branch]
    used: "itertools.count[int]" = field(default_factory=itertools.count)

    def next(self) -> Branch:
        return self.branches[next(self.used) // growth(self.turns)]


@dataclass
class _Case:
    supply: _Supply
    kind: str
    made: Sequence[Turn]

    async def record(self, number: int) -> None:
        await self.supply.next().record_turn(self.made[number])


def growth(turns: int) -> int:
    """Turns that may be added to a branch which is still said to have `turns`."""
    return max(5, turns // 4)


async def measure_record(
    database: Database,
    branches: Mapping[int, Branch],
    corpus: Corpus,
    rounds: int,
    report: Report,
) -> list[Beside]:
    needed = len(ROWS) * (rounds + WARMUP + WATCHED)
    supplies = [
        await _supply(database, turns, branch, needed, corpus, report)
        for turns, branch in branches.items()
    ]
    async with acquired(database.pool) as connection:
        await connection.execute(_FILL, branches[max(branches)].branch_uuid)
    await database.settle()
    made = {
        kind: [corpus.turn(number, rows=rows) for number in range(WARMUP + rounds)]
        for kind, rows in ROWS.items()
    }
    texts = {kind: [dumps(turn) for turn in turns] for kind, turns in made.items()}
    cases = [_Case(supply, kind, made[kind]) for supply in supplies for kind in ROWS]
    candidates: dict[object, Candidate] = {kind: _insert(database, texts[kind]) for kind in ROWS}
    candidates |= {number: case.record for number, case in enumerate(cases)}
    seconds = await interleaved(candidates, rounds, warmup=WARMUP)
    return [
        Beside(
            turns=case.supply.turns,
            kind=case.kind,
            ours=(ours := Times.of(seconds[number])),
            bare=Times.of(seconds[case.kind]),
            size=round(median(len(text.encode()) for text in texts[case.kind])),
            database_ms=ours.p50 * await _database_share(database, case),
        )
        for number, case in enumerate(cases)
    ]


async def _supply(
    database: Database, turns: int, first: Branch, needed: int, corpus: Corpus, report: Report
) -> _Supply:
    client = database.client(fast=True)
    branches = [await database.client().find_branch(first.conversation_id)]
    while len(branches) * growth(turns) < needed:
        name = f"{turns} turns, copy {len(branches)}"
        await record(await client.open_branch(name), corpus, turns, report)
        branches.append(await database.client().find_branch(name))
    return _Supply(turns, branches)


def _insert(database: Database, texts: Sequence[str]) -> Callable[[int], Awaitable[None]]:
    async def insert(number: int) -> None:
        async with acquired(database.pool) as connection:
            await connection.execute(INSERT, texts[number])

    return insert


async def _database_share(database: Database, case: _Case) -> float:
    """The share of a call's time spent in statements."""
    shares: list[float] = []
    async with Statements(database.pool) as statements:
        for number in range(WATCHED):
            seconds = await seconds_of(case.record(number))
            seen = await statements.drain()
            shares.append(sum(statement.elapsed for statement in seen) / seconds)
    return median(shares)
