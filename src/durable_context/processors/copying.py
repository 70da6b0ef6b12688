"""Deep copies of data that share what is no data: clients, branches, workspaces.

Data are containers, scalars, dataclass instances and pydantic models. All else is a service handle.
"""

import copy
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel

from durable_context.errors import ContextError

SCALARS: Final = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    date,
    time,
    timedelta,
    tzinfo,
    Decimal,
    UUID,
    Enum,
)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, deque)


def is_record(value: object) -> bool:
    """Whether it is an instance that has named fields: of a dataclass or of a pydantic model."""
    return isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))


def is_data(value: object) -> bool:
    return isinstance(value, (*SCALARS, *_CONTAINERS)) or is_record(value)


def copied(value: Any) -> Any:
    """A deep copy that keeps types, cycles and what is shared within. Service handles in it are
    the same as in the original. Raises ContextError where it is nested too deeply.
    """
    try:
        return copy.deepcopy(value, {id(handle): handle for handle in _handles(value)})
    except RecursionError as error:
        raise ContextError("the state is nested too deeply to be copied") from error


def _handles(value: object) -> Iterator[object]:
    """All service handles within."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, SCALARS) or id(current) in seen:
            continue
        seen.add(id(current))
        if is_data(current):
            waiting.extend(_members(current))
        else:
            yield current


def _members(data: Any) -> Iterator[object]:
    """What a container holds, keys and attributes included."""
    if isinstance(data, dict):
        for key, value in cast("dict[object, object]", data).items():
            yield key
            yield value
    elif isinstance(data, _CONTAINERS):
        yield from cast("Iterable[object]", data)
    if isinstance(data, defaultdict):
        yield cast("defaultdict[object, object]", data).default_factory
    yield from _attributes(data).values()


def _attributes(data: object) -> dict[str, object]:
    found = dict(getattr(data, "__dict__", {}))
    for each in type(data).__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(data, name):
                found[name] = getattr(data, name)
    return found


def same(left: Any, right: Any) -> bool:
    """Whether two values have the same types and contents throughout, in the same order. A service
    handle is the same as itself only.
    """
    return _same(left, right, set())


def _same(left: Any, right: Any, compared: set[tuple[int, int]]) -> bool:
    if left is right or (id(left), id(right)) in compared:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, SCALARS):
        return left == right or (left != left and right != right)  # NaN is the same as NaN
    if not is_data(left):
        return False
    compared.add((id(left), id(right)))
    if isinstance(left, set | frozenset):
        return left == right
    ours, theirs = list(_members(left)), list(_members(right))
    return len(ours) == len(theirs) and all(
        _same(one, other, compared) for one, other in zip(ours, theirs, strict=True)
    )
