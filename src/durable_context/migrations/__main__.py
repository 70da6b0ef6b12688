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
        missing = asyncio.run(_register())
    except CompactionUnavailable as error:
        Console(stderr=True).print(f"search attributes: {error}", markup=False)
        raise typer.Exit(1) from error
    told = f"without {', '.join(missing)}: see the warnings" if missing else "registered"
    console.print(f"search attributes: {told}")


async def _register() -> list[str]:
    """What Temporal refuses, or was not registered before and may not be looked at."""
    from durable_context.compaction.search_attributes import (
        register_search_attributes,
        registered_search_attributes,
    )
    from durable_context.compaction.temporal_calls import connect
    from durable_context.contracts import SEARCH_ATTRIBUTES

    client = await connect(None)
    known = await registered_search_attributes(client)
    known |= frozenset(await register_search_attributes(client))
    return [name for name in SEARCH_ATTRIBUTES if name not in known]


if __name__ == "__main__":
    typer.run(main)
