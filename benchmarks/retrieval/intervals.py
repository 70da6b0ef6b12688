"""How far a mean over questions would move, had other questions of the kind been asked."""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

ROUNDS = 2_000
SEED = 20_240_817
_TAIL = 0.025


class Interval(NamedTuple):
    """A mean and its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """By resampling the values ROUNDS times with replacement.

    As many values are resampled alike every time, so that the interval of differences between two
    methods at the same questions is a paired one.
    """
    if not values:
        return Interval(0.0, 0.0, 0.0)
    pick = values.__getitem__
    means = sorted(sum(map(pick, chosen)) / len(values) for chosen in _resampled(len(values)))
    edge = int(_TAIL * ROUNDS)
    return Interval(sum(values) / len(values), means[edge], means[-1 - edge])


@lru_cache(maxsize=16)
def _resampled(size: int) -> list[list[int]]:
    choices = random.Random(SEED).choices
    positions = range(size)
    return [choices(positions, k=size) for _ in range(ROUNDS)]
