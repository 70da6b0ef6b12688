"""Key-value state of a context: its own entries before those it inherits."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from durable_context.errors import ContextError
from durable_context.showing import shown

_MISSING: Final[Any] = object()


class ContextState:
    """Entries by key. Reads go from the own entries up the chain of parents, where an own None
    hides what is inherited; writes change the own entries alone.

    Values are held by reference. `Context.fork` copies what a child inherits.
    """

    def __init__(
        self, initial: Mapping[str, Any] | None = None, *, parent: "ContextState | None" = None
    ) -> None:
        if parent is not None and not isinstance(parent, ContextState):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContextError(f"parent={shown(parent)}; it must be a ContextState or None")
        self._own: dict[str, Any] = {}
        self._parent = parent
        self.update(initial)

    @property
    def parent(self) -> "ContextState | None":
        return self._parent

    def get(self, key: str, default: Any = None) -> Any:
        level: ContextState | None = self
        while level is not None:
            if key in level._own:
                return level._own[key]
            level = level._parent
        return default

    def __getitem__(self, key: str) -> Any:
        """Raises KeyError."""
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def __contains__(self, key: str) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def set(self, key: str, value: Any) -> None:
        self._own[key] = value

    __setitem__ = set

    def update(
        self, other: "Mapping[str, Any] | ContextState | None" = None, /, **entries: Any
    ) -> None:
        """Of another state only its own entries are taken. Raises ContextError."""
        if isinstance(other, ContextState):
            other = other._own
        elif other is not None and not isinstance(other, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContextError(f"{shown(other)} is no state; it must be a dict or a ContextState")
        self._own.update(other or {}, **entries)

    def delete(self, key: str) -> None:
        """Remove an own entry. Raises KeyError, also for one that is inherited."""
        del self._own[key]

    __delitem__ = delete

    def pop(self, key: str, *default: Any) -> Any:
        """Remove an own entry and return it. Without a default, raises KeyError as `delete`."""
        return self._own.pop(key, *default)

    def clear(self) -> None:
        """Remove the own entries. What is inherited shows again."""
        self._own.clear()

    def local_dict(self) -> dict[str, Any]:
        """The own entries, in a new dict that holds the same values."""
        return dict(self._own)

    def to_dict(self) -> dict[str, Any]:
        """All entries, in a new dict that holds the same values."""
        inherited = {} if self._parent is None else self._parent.to_dict()
        return inherited | self._own

    def keys(self) -> "set[str]":
        """Inherited ones included."""
        return set(self.to_dict())

    def __iter__(self) -> Iterator[str]:
        """The keys, those inherited first."""
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __bool__(self) -> bool:
        return bool(self._own) or bool(self._parent)

    def __repr__(self) -> str:
        inherited = f", inherited={len(self._parent)}" if self._parent else ""
        return f"ContextState(local={len(self._own)}{inherited})"
