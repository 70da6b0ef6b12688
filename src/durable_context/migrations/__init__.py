"""Numbered, forward-only SQL files, each applied once, in a transaction of its own."""

from importlib import resources

import asyncpg

from durable_context.database import Pool, acquired
from durable_context.errors import SchemaMissing

# One migration at a time, whoever starts it: pg_advisory_lock on the bytes "durctx".
LOCK = 0x647572637478


def migration_names() -> list[str]:
    """Names of all migrations, in the order they apply."""
    files = resources.files(__name__).iterdir()
    return sorted(file.name for file in files if file.name.endswith(".sql"))


async def migrate(database_url: str) -> list[str]:
    """Bring the schema up to date and return the names applied now. Safe to run twice, or at
    once.
    """
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("select pg_advisory_lock($1)", LOCK)
        await connection.execute(
            "create schema if not exists durable_context;"
            "create table if not exists durable_context.migrations"
            " (name text primary key, applied_at timestamptz not null default clock_timestamp())"
        )
        applied = await _apply_missing(connection)
        # Not a migration: what it makes depends on extensions the database may get any day.
        await connection.execute("select durable_context.ensure_embeddings()")
        return applied
    finally:
        await connection.close()


async def check_schema(pool: Pool) -> None:
    """Raises SchemaMissing unless every migration of this version is applied."""
    async with acquired(pool) as connection:
        rows = await connection.fetch("select name from durable_context.migrations")
    if missing := sorted(set(migration_names()) - {row["name"] for row in rows}):
        raise SchemaMissing(
            f"the database lacks {', '.join(missing)}: run `python -m durable_context.migrations`"
        )


async def _apply_missing(connection: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    rows = await connection.fetch("select name from durable_context.migrations")
    missing = [name for name in migration_names() if name not in {row["name"] for row in rows}]
    for name in missing:
        sql = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
        async with connection.transaction():
            await connection.execute(sql)
            await connection.execute(
                "insert into durable_context.migrations (name) values ($1)", name
            )
    return missing
