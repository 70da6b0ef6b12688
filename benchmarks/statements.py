"""What the library sends to the database, seen on the pool's only connection."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from asyncpg.connection import LoggedQuery

from durable_context.database import Pool, acquired


class Statements:
    """`async with Statements(pool) as seen:` collects statements with the time each took."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._seen: list[LoggedQuery] = []

    async def __aenter__(self) -> Self:
        async with acquired(self._pool) as connection:
            connection.add_query_logger(self._seen.append)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with acquired(self._pool) as connection:
            connection.remove_query_logger(self._seen.append)

    async def drain(self) -> Sequence[LoggedQuery]:
        """Statements since the last time it was asked."""
        await asyncio.sleep(0)  # the driver tells its loggers in a later step of the loop
        seen, self._seen[:] = list(self._seen), []
        return seen


def content_of(value: Any) -> str:
    """A column as text."""
    return value if isinstance(value, str) else "" if value is None else str(value)
