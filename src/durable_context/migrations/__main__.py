"""The deploy step: migrates the database and registers search attributes with Temporal.

Usage: `python -m durable_context.migrations [--database-url URL] [--skip-temporal]`.
"""

import asyncio
import os
from typing import Annotated

import asyncpg
import typer
from rich.console import Console

from durable_context.errors import CompactionUnavailable
from durable_context.migrations import migrate


def main(
    database_url: Annotated[str, typer.Option(envvar="DURABLE_CONTEXT_DATABASE_URL")],
    skip_temporal: Annotated[
        bool, typer.Option(help="Do not register search attributes with Temporal.")
    ] = False,
) -> None:
    """Bring the database schema up to date and register the search attributes."""
    console = Console()
    try:
        applied = asyncio.run(migrate(database_url))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        Console(stderr=True).print(f"migration failed: {error}", markup=False)
        raise typer.Exit(1) from error
    console.print(f"applied: {', '.join(applied) or 'nothing, the schema is up to date'}")
    if skip_temporal or "TEMPORAL_ADDRESS" not in os.environ:
        console.print("search attributes: not registered (no TEMPORAL_ADDRESS)")
        return
    try:
        asyncio.run(_register())
    except CompactionUnavailable as error:
        Console(stderr=True).print(f"search attributes: {error}", markup=False)
        raise typer.Exit(1) from error
    console.print("search attributes: registered")


async def _register() -> None:
    from durable_context.compaction.requests import register_search_attributes
    from durable_context.compaction.temporal_calls import connect

    await register_search_attributes(await connect(None))


if __name__ == "__main__":
    typer.run(main)
