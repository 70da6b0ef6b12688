"""The figures the project holds itself to, and whether this run met them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.compactions import History, Throughput
from benchmarks.fork import FORK
from benchmarks.measure import Beside
from benchmarks.prepare import NO_RETRIEVAL

PREPARE_RATIO = 3.0
PREPARE_FLATNESS = 1.5
FORK_FLATNESS = 1.5
RECORD_RATIO = 2.0
COMPACTION_RATIO = 0.8
PASS_EVENTS = 40
MERGE_EVENTS = 12


@dataclass(frozen=True)
class Goal:
    """`at_least`: the figure must not be below the limit; otherwise not above it."""

    name: str
    figure: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit


def flatness(measured: Sequence[Beside], kind: str) -> float:
    """Time at the longest branch over time at the shortest."""
    ordered = sorted((each for each in measured if each.kind == kind), key=lambda each: each.turns)
    return ordered[-1].ours.p50 / ordered[0].ours.p50


def prepare_goals(measured: Sequence[Beside]) -> Iterator[Goal]:
    plain = [each for each in measured if each.kind == NO_RETRIEVAL]
    for each in plain:
        yield Goal(f"prepare at {each.turns:,} turns", each.ratio, PREPARE_RATIO)
    yield Goal("prepare at most over fewest turns", flatness(plain, NO_RETRIEVAL), PREPARE_FLATNESS)


def fork_goals(measured: Sequence[Beside]) -> Iterator[Goal]:
    yield Goal("fork at most over fewest turns", flatness(measured, FORK), FORK_FLATNESS)


def record_goals(measured: Sequence[Beside]) -> Iterator[Goal]:
    for each in measured:
        yield Goal(f"record_turn at {each.turns:,} turns, {each.kind}", each.ratio, RECORD_RATIO)


def compaction_goals(throughput: Throughput, histories: Sequence[History]) -> Iterator[Goal]:
    yield Goal("compactions per bare workflow", throughput.ratio, COMPACTION_RATIO, at_least=True)
    plain = {each.started_by: each for each in histories if not each.merges}
    for each in histories:
        events = plain[each.started_by].events
        if each.merges:
            more = (each.events - events) / each.merges
            yield Goal(f"events per merge, by {each.started_by}", more, MERGE_EVENTS)
        elif each.is_compaction:
            yield Goal(f"events of a pass, by {each.started_by}", events, PASS_EVENTS)
