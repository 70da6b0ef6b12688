"""Deep copies of data that share what is no data: clients, branches, workspaces.

Data are containers, scalars, dataclass instances and pydantic models. All else is a service handle.
"""

import copy
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import MemberDescriptorType
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel

from durable_context.errors import ContextError

PLAIN: Final = (type(None), bool, int, float, str)
SCALARS: Final = (*PLAIN, bytes, bytearray, date, time, timedelta, Decimal, UUID, Enum)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, deque)
_ATOMS: Final = frozenset((*PLAIN, bytes, bytearray, date, datetime, time, timedelta, UUID))


def is_data(value: object) -> bool:
    return isinstance(value, (*SCALARS, *_CONTAINERS)) or has_fields(value)


def has_fields(value: object) -> bool:
    """Whether it is an instance of a dataclass or of a pydantic model."""
    return isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))


def copied(value: Any) -> Any:
    """A deep copy that keeps types, cycles and what is shared within. Service handles in it are
    those of the original. Raises ContextError for data that cannot be copied.
    """
    try:
        return copy.deepcopy(value, {id(handle): handle for handle in _handles(value)})
    except RecursionError as error:
        raise ContextError("the state is nested too deeply to be copied") from error
    except Exception as error:  # a `__deepcopy__` may raise anything
        raise ContextError(f"the state holds data that cannot be copied: {error}") from error


def _handles(value: object) -> Iterator[object]:
    """All service handles within, so that deepcopy takes them for copied already."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if type(current) in _ATOMS or isinstance(current, Enum) or id(current) in seen:
            continue
        seen.add(id(current))
        if is_data(current):
            waiting.extend(_members(current))
        else:
            yield current


def _members(data: object) -> Iterator[object]:
    """What it holds: keys, values, items and attributes."""
    if isinstance(data, dict):
        for pair in cast("dict[object, object]", data).items():
            yield from pair
    elif isinstance(data, _CONTAINERS):
        yield from cast("Iterable[object]", data)
    yield from _attributes(cast(object, data))


def _attributes(data: object) -> Iterator[object]:
    if type(data) in _CONTAINERS:  # which have none: to look would be most of the work
        return
    yield from getattr(data, "__dict__", {}).values()
    for each in type(data).__mro__:
        for name, attribute in vars(each).items():
            if isinstance(attribute, MemberDescriptorType) and hasattr(data, name):
                yield getattr(data, name)


def same(left: Any, right: Any) -> bool:
    """Whether two values have the same types and contents throughout, in the same order. A service
    handle is the same as itself only. Raises ContextError where they are nested too deeply.
    """
    try:
        return _same(left, right, set())
    except RecursionError as error:
        raise ContextError("the state is nested too deeply to be compared") from error


def _same(left: Any, right: Any, compared: set[tuple[int, int]]) -> bool:
    if left is right or (id(left), id(right)) in compared:
        return True
    if type(left) is not type(right) or not is_data(left):
        return False
    if isinstance(left, Decimal):
        return left.compare_total(right) == 0  # a signaling NaN raises when compared by `==`
    if isinstance(left, SCALARS):
        return left == right or (left != left and right != right)  # as NaN is not
    if isinstance(left, set | frozenset):
        return left == right
    compared.add((id(left), id(right)))
    ours, theirs = list(_members(left)), list(_members(right))
    return len(ours) == len(theirs) and all(
        _same(one, other, compared) for one, other in zip(ours, theirs, strict=True)
    )
