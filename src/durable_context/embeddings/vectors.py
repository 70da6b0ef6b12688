"""What may be a vector, checked before it is stored or searched with."""

import math
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from typing import Final, cast

from durable_context.errors import InvalidArgument

MOST_DIMENSIONS: Final = 16_000
_NO_SEQUENCES: Final = (str, bytes, bytearray, Mapping, Set)


def checked_vector(
    value: object, *, name: str = "query_vector", dimensions: int | None = None
) -> list[float]:
    """The vector at unit length, which is all that similarity depends on.

    Any sequence of finite numbers will do, an array of numpy too. Raises InvalidArgument.
    """
    numbers = _numbers(value, name)
    if not 1 <= len(numbers) <= MOST_DIMENSIONS:
        raise InvalidArgument(
            f"{name} has {len(numbers):,} dimensions; allowed are 1 to {MOST_DIMENSIONS:,}"
        )
    if dimensions is not None and len(numbers) != dimensions:
        raise InvalidArgument(f"{name} has {len(numbers):,} dimensions, not {dimensions:,}")
    largest = max(map(abs, numbers))
    if largest == 0:
        raise InvalidArgument(f"{name} is zero throughout; it must point somewhere")
    scaled = [number / largest for number in numbers]
    length = math.hypot(*scaled)
    return [number / length for number in scaled]


def vector_text(vector: Iterable[float]) -> str:
    """As pgvector reads it."""
    return f"[{','.join(map(repr, vector))}]"


def _numbers(value: object, name: str) -> list[float]:
    kind = type(value).__name__
    if isinstance(value, _NO_SEQUENCES) or not isinstance(value, Iterable):
        raise InvalidArgument(f"{name} is of type {kind}; it must be a sequence of numbers")
    items = cast("Iterable[object]", value)
    return [_number(item, position, name) for position, item in enumerate(items)]


def _number(item: object, position: int, name: str) -> float:
    if not isinstance(item, bool) and isinstance(item, Real):
        try:
            number = float(item)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise InvalidArgument(f"{name}[{position}]={item!r:.80}; it must be a finite number")
