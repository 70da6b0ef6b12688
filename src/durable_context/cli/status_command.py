"""`durable-context status [CONVERSATION]`."""

from typing import Annotated

import typer

from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import DatabaseUrl, Iso, Json, Tenant
from durable_context.cli.output import console, print_json
from durable_context.cli.status_view import print_status
from durable_context.control.status import StatusFilter
from durable_context.errors import UnknownBranch


def status(
    conversation: Annotated[
        str | None, typer.Argument(help="Its id; all by default.", show_default=False)
    ] = None,
    behind: Annotated[
        bool, typer.Option("--behind", metavar="", help="Branches that a segment is due of.")
    ] = False,
    failed: Annotated[
        bool, typer.Option("--failed", metavar="", help="Branches whose last compaction failed.")
    ] = False,
    running: Annotated[
        bool, typer.Option("--running", metavar="", help="Branches that are being compacted.")
    ] = False,
    paused: Annotated[
        bool, typer.Option("--paused", metavar="", help="Branches that are paused.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, help="Branches to show; 0 for totals alone.")] = 20,
    after: Annotated[
        str | None, typer.Option(help="Go on where a page ended.", show_default=False)
    ] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """Show how branches stand, the furthest behind first: lag, what runs, what failed, balance.

    The balance is in tokens: what prompts are shorter by, summed over the turns since, less what
    compaction read and wrote, and what it broke of a provider's cache.
    """
    only = _filter(behind=behind, failed=failed, running=running, paused=paused)

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            page = await client.status(
                conversation_id=conversation, only=only, limit=limit, after=after
            )
        if conversation is not None and page.totals is not None and not page.totals.branches:
            raise UnknownBranch(f"tenant {tenant!r} has no conversation {conversation!r}")
        if as_json:
            print_json(page)
        else:
            print_status(console(), page, iso=iso)
        return 0

    run(command())


def _filter(**asked: bool) -> StatusFilter | None:
    names: tuple[StatusFilter, ...] = ("behind", "failed", "running", "paused")
    chosen: list[StatusFilter] = [name for name in names if asked[name]]
    if len(chosen) > 1:
        given = " and ".join(f"--{name}" for name in chosen)
        raise typer.BadParameter(f"{given}: choose one")
    return chosen[0] if chosen else None
