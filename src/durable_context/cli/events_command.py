"""`durable-context events CONVERSATION`."""

from typing import Annotated

import typer
from rich.console import Console

from durable_context import ContextEvent
from durable_context.cli.connecting import connect
from durable_context.cli.event_view import event_line
from durable_context.cli.failures import run
from durable_context.cli.options import BranchName, Conversation, DatabaseUrl, Iso, Tenant
from durable_context.cli.output import Line, console, print_json


def events(
    conversation: Conversation,
    branch: BranchName = "main",
    after: Annotated[int, typer.Option(min=0, help="Begin after the event with this cursor.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", metavar="", help="Wait for more, until Ctrl-C.")
    ] = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object per event and line.")
    ] = False,
) -> None:
    """Print what happened to a branch, in order: cursor, time, turn, event."""

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            seen = await client.find_branch(conversation, branch)
            out = console()
            async for event in seen.events(after, follow=follow):
                _print(event, out, iso=iso, as_json=as_json)
        return 0

    run(command())


def _print(event: ContextEvent, out: Console, *, iso: bool, as_json: bool) -> None:
    if as_json:
        print_json(event)
    elif out.is_terminal:
        out.print(Line(event_line(event, iso=iso)))
    else:
        out.print(event_line(event, iso=iso), soft_wrap=True)
