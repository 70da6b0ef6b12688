"""Dicts and lists that cannot be changed and are in all else like any other."""

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from durable_context.errors import ContextError
from durable_context.processors.copying import copied


def frozen_copy(entries: Mapping[str, Any]) -> "FrozenDict":
    """A deep copy with its dicts, lists and sets frozen. Raises ValueError where one is within
    itself, and for data that cannot be copied.
    """
    try:
        return FrozenDict(copied(dict(entries)))
    except RecursionError as error:
        raise ValueError("it is nested too deeply, or holds itself") from error
    except ContextError as error:
        raise ValueError(str(error)) from error


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} cannot be changed")


class FrozenDict(dict[str, Any]):
    """Freezes the values it is made of."""

    def __init__(self, entries: dict[str, Any]) -> None:
        super().__init__({key: _frozen(value) for key, value in entries.items()})

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """Freezes the values it is made of."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(map(_frozen, items))

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return FrozenList(cast("list[Any]", value))
    if isinstance(value, set):
        return frozenset(cast("set[Any]", value))
    if type(value) is tuple:
        return tuple(map(_frozen, cast("tuple[Any, ...]", value)))
    return value
