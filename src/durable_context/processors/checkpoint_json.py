"""Values of a checkpoint as JSON, and back.

What JSON has no form for is an object `{"$type": …, "value": …}`. Left out are service handles and
the places where data hold themselves. Dataclass instances and foreign pydantic models come back as
dicts, members of an Enum as their values; as keys and in sets, which hold no dicts, as tuples. What
stands at several places is written at each.
"""

import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from math import isfinite
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from pydantic import BaseModel

from durable_context.errors import CheckpointError
from durable_context.models import Message
from durable_context.processors.copying import PLAIN, has_fields
from durable_context.processors.history import Record
from durable_context.showing import shown
from durable_context.stored_json import LARGEST_BITS

TYPE: Final = "$type"
_LEFT_OUT: Final[Any] = object()


class _Form(NamedTuple):
    """How values of a type are written, and read."""

    written: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _base64(content: bytes | bytearray) -> str:
    return b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)


def _bytearray(text: str) -> bytearray:
    return bytearray(_bytes(text))


def _parts(duration: timedelta) -> list[int]:
    return [duration.days, duration.seconds, duration.microseconds]


def _duration(parts: list[int]) -> timedelta:
    days, seconds, microseconds = parts
    return timedelta(days, seconds, microseconds)


_SCALARS: Final[dict[type, _Form]] = {
    bytes: _Form(_base64, _bytes),
    bytearray: _Form(_base64, _bytearray),
    datetime: _Form(datetime.isoformat, datetime.fromisoformat),
    date: _Form(date.isoformat, date.fromisoformat),
    time: _Form(time.isoformat, time.fromisoformat),
    timedelta: _Form(_parts, _duration),
    Decimal: _Form(str, Decimal),
    UUID: _Form(str, UUID),
    float: _Form(repr, float),
    int: _Form(hex, partial(int, base=16)),
}
_CONTAINERS: Final[dict[type, Callable[[Any], Any]]] = {
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    dict: dict,
    Record: Record,
    Message: Message.model_validate,
}
_READ: Final = {kind.__name__: form.read for kind, form in _SCALARS.items()} | {
    kind.__name__: read for kind, read in _CONTAINERS.items()
}


def to_json(entries: dict[str, Any]) -> Any:
    """Raises CheckpointError for keys that differ, and would not when they come back."""
    return _written(entries, ())


def from_json(value: Any) -> Any:
    """Raises ValueError, TypeError or LookupError for what `to_json` does not write."""
    if isinstance(value, list):
        return [from_json(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    entries = cast("dict[str, Any]", value)
    if TYPE not in entries:
        return {key: from_json(item) for key, item in entries.items()}
    return _READ[entries[TYPE]](from_json(entries["value"]))


def _written(value: Any, within: tuple[int, ...]) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, PLAIN) and _is_json(value):
        return value
    for kind, form in _SCALARS.items():
        if isinstance(value, kind):
            return _typed(kind, form.written(value))
    if id(value) in within:
        return _LEFT_OUT
    return _written_container(value, (*within, id(value)))


def _is_json(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return not isinstance(value, int) or value.bit_length() <= LARGEST_BITS


def _written_container(value: Any, within: tuple[int, ...]) -> Any:
    items = cast("Iterable[Any]", value)
    if isinstance(value, Message):
        given = {name: item for name, item in value if name in value.model_fields_set}
        return _typed(Message, _written_dict(given, within))
    if isinstance(value, Record):
        return _typed(Record, _written_dict(value, within))
    if isinstance(value, dict):
        return _written_dict(cast("dict[Any, Any]", value), within)
    if isinstance(value, list | deque):
        return list(_all(items, within))
    if isinstance(value, tuple):
        return _typed(tuple, list(_all(items, within)))
    if isinstance(value, set | frozenset):
        kind = set if isinstance(value, set) else frozenset
        members = _all(map(_hashable, items), within)
        return _typed(kind, sorted(members, key=json.dumps))
    if has_fields(value):
        return _written_dict(_fields(value), within)
    return _LEFT_OUT


def _hashable(value: Any, within: tuple[int, ...] = ()) -> Any:
    """What comes back as something that a set or a dict can hold as well."""
    if id(value) in within:
        return _LEFT_OUT
    items, inside = cast("Iterable[Any]", value), (*within, id(value))
    if isinstance(value, Enum):
        return _hashable(value.value)
    if has_fields(value) and not isinstance(value, Message):
        return _hashable(_fields(value), inside)
    if isinstance(value, dict):
        return _hashable(tuple(cast("dict[Any, Any]", value).items()), inside)
    if isinstance(value, list | tuple | deque):
        return tuple(_hashable(item, inside) for item in items)
    if isinstance(value, set | frozenset):
        return frozenset(_hashable(item, inside) for item in items)
    return bytes(value) if isinstance(value, bytearray) else value


def _fields(value: Any) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return dict(value)
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _written_dict(entries: dict[Any, Any], within: tuple[int, ...]) -> Any:
    pairs = [
        (_written(_hashable(key), within), _written(value, within))
        for key, value in entries.items()
    ]
    pairs = [pair for pair in pairs if not any(each is _LEFT_OUT for each in pair)]
    if len({from_json(key) for key, _ in pairs}) < len(pairs):
        raise CheckpointError(f"keys of {shown(entries)} would be the same when they come back")
    if all(isinstance(key, str) and key != TYPE for key, _ in pairs):
        return dict(pairs)
    return _typed(dict, [list(pair) for pair in pairs])


def _all(items: Iterable[Any], within: tuple[int, ...]) -> Iterator[Any]:
    written = (_written(item, within) for item in items)
    return (item for item in written if item is not _LEFT_OUT)


def _typed(kind: type, value: Any) -> dict[str, Any]:
    return {TYPE: kind.__name__, "value": value}
