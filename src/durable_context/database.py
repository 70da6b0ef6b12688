"""The connection pool, and what driver errors mean."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import asyncpg

from durable_context.errors import (
    DatabaseUnavailable,
    DurableContextError,
    InvalidDatabaseUrl,
    SchemaMissing,
)

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Answer = TypeVar("Answer")
Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

_SETTINGS = {
    "application_name": "durable-context",
    # Static statements on tables whose statistics say nothing of a branch: the generic plan is the
    # right one, and planning or compiling per call costs more than running (1.25 ms against 0.31).
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # Days are days of UTC, whatever the server, the database or the role is set to.
    "TimeZone": "UTC",
    # Every name in our SQL is qualified; this makes a slip an error.
    "search_path": "",
}

CACHED_STATEMENT_BYTES = 100_000
"""By default the driver prepares a statement over 15 KB anew for each call, which takes longer than
running it.
"""
ACQUIRE_SECONDS = 10.0
COMMAND_SECONDS = 60.0
"""Bounds on waiting for a free connection and for one statement: a hung database is an error."""

# A connection that broke, was broken off or refused, a server that is not the primary, and a
# transaction that was rolled back in favour of another.
_UNAVAILABLE = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
)


async def create_pool(database_url: str, *, min_size: int = 1, max_size: int = 10) -> Pool:
    """A pool without reset queries on release: we leave no session state to reset.

    Raises DatabaseUnavailable.
    """
    try:
        return await asyncpg.create_pool(
            database_url,
            min_size=min_size,
            max_size=max_size,
            reset=_keep,
            command_timeout=COMMAND_SECONDS,
            max_cacheable_statement_size=CACHED_STATEMENT_BYTES,
            server_settings=_SETTINGS,
        )
    except ValueError:
        # asyncpg quotes what it cannot parse, which may be a part of the password.
        raise InvalidDatabaseUrl from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        why = str(error) or "no answer in time"
        raise DatabaseUnavailable(f"cannot connect to the database: {why}") from error


async def _keep(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    pass


async def answers(pool: Pool) -> None:
    """Raises DatabaseUnavailable where the database is away, whatever is asked of it."""
    async with acquired(pool) as connection:
        await connection.execute("select")


async def asked_again(pool: Pool, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Once more where the connection broke and the database is there. Raises what `ask` raises
    then, and DatabaseUnavailable where it is away.
    """
    try:
        return await ask()
    except DatabaseUnavailable:
        await answers(pool)
        return await ask()


@asynccontextmanager
async def acquired(
    pool: Pool,
) -> AsyncGenerator[Connection]:
    """A connection, with driver errors as our own."""
    try:
        async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            yield connection
    except DurableContextError:
        raise
    except (
        asyncpg.UndefinedTableError,
        asyncpg.UndefinedFunctionError,
        asyncpg.UndefinedColumnError,
        asyncpg.InvalidSchemaNameError,
    ) as error:
        raise SchemaMissing from error
    except _UNAVAILABLE as error:
        raise DatabaseUnavailable(f"the database did not answer: {error!r:.300}") from error
