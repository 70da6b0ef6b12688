"""Recipes as labels of metrics. Callers may name any model, misspelt ones too: of theirs only those
are told that were configured anyway.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

OTHER: Final = "other"

_configured: ContextVar[frozenset[str] | None] = ContextVar("configured", default=None)


@contextmanager
def named_by_caller(configured: str) -> Generator[None]:
    """While one is asked that a caller named. `configured`: who is asked otherwise; of a chain,
    each of its recipes is meant too.
    """
    token = _configured.set(frozenset((configured, *configured.split(" > "))))
    try:
        yield
    finally:
        _configured.reset(token)


def label_of(recipe: str) -> str:
    configured = _configured.get()
    return recipe if configured is None or recipe in configured else OTHER
