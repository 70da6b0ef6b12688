"""Dicts and lists that cannot be changed and are like any other in all else."""

from collections.abc import Mapping
from typing import Any, NoReturn, cast

from durable_context.processors.copying import copied


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} cannot be changed")


class FrozenDict(dict[str, Any]):
    """Copies what it is made of, and freezes what that holds."""

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        own = copied(dict(entries or {}))
        super().__init__({key: frozen(value) for key, value in own.items()})

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FrozenDict":
        return self


class FrozenList(list[Any]):
    """Freezes what it is made of."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__(map(frozen, items))

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FrozenList":
        return self


def frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return FrozenDict(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return FrozenList(cast("list[Any]", value))
    if isinstance(value, set):
        return frozenset(cast("set[Any]", value))
    if type(value) is tuple:
        return tuple(map(frozen, cast("tuple[Any, ...]", value)))
    return value
