"""A database that is built once and measured often."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.database import Database
from durable_context.database import create_pool
from durable_context.migrations import migrate
from worker.postgres_server import PostgresServer


@asynccontextmanager
async def kept_database(directory: Path) -> AsyncGenerator[Database]:
    """In that folder, as it was left there."""
    async with PostgresServer(directory) as server:
        url = server.database_url
        await migrate(url)
        async with (
            await create_pool(url, max_size=1) as pool,
            await create_pool(f"{url}?synchronous_commit=off", max_size=1) as not_waiting,
        ):
            yield Database(pool, not_waiting)
