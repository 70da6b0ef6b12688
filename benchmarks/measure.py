"""Interleaved timing: every round runs every candidate once, in another order each time, so that a
drift of the machine reaches all of them alike.
"""

import random
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)
Candidate = Callable[[int], Awaitable[object]]
"""Called with the number of the round, from 0."""


@dataclass(frozen=True)
class Times:
    """Milliseconds of one call."""

    p50: float
    p99: float
    samples: int

    @classmethod
    def of(cls, seconds: list[float]) -> "Times":
        ordered = sorted(seconds)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return cls(1000 * median(ordered), 1000 * p99, len(ordered))


@dataclass(frozen=True)
class Beside:
    """One operation beside its bare counterpart, and its share of waiting for the database."""

    turns: int
    kind: str
    ours: Times
    bare: Times
    size: int
    database_ms: float

    @property
    def ratio(self) -> float:
        return self.ours.p50 / self.bare.p50

    @property
    def python_ms(self) -> float:
        return self.ours.p50 - self.database_ms


async def interleaved(
    candidates: Mapping[Name, Candidate], rounds: int, *, warmup: int
) -> dict[Name, list[float]]:
    """Seconds per round. The first `warmup` rounds are run and not counted."""
    order = list(candidates.items())
    shuffle = random.Random(0).shuffle
    seconds: dict[Name, list[float]] = {name: [] for name in candidates}
    for number in range(warmup + rounds):
        shuffle(order)
        for name, candidate in order:
            taken = await seconds_of(candidate(number))
            if number >= warmup:
                seconds[name].append(taken)
    return seconds


async def seconds_of(work: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun
