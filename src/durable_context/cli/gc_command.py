"""`durable-context gc`, `durable-context retention` and `durable-context delete CONVERSATION`."""

from typing import Annotated

import typer

from durable_context.cli.connecting import connect
from durable_context.cli.failures import BAD_INPUT, complain, run
from durable_context.cli.options import Conversation, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, print_json
from durable_context.cli.progress import progress
from durable_context.cli.retention_view import policy_table, report_view
from durable_context.retention import RetentionReport
from durable_context.retention.parsing import changed_policy

DryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Delete nothing; say what would go.")
]


def gc(
    dry_run: DryRun = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Delete what nothing needs any more, by the tenant's `durable-context retention`."""

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            with progress("Looking through rows") as shown:
                report = await client.gc(
                    dry_run=dry_run, told=lambda done: shown(done.examined, None)
                )
        _tell(report, as_json=as_json)
        return 0

    run(command())


def retention(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=VALUE]...",
            help="What to change: an age such as 7d, 12h or never, a number, or all.",
            show_default=False,
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Show what the tenant keeps and for how long, or change it."""

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            policy = await client.retention()
            if settings:
                try:
                    policy = changed_policy(policy, settings)
                except ValueError as error:
                    complain(str(error))
                    return BAD_INPUT
                await client.set_retention(policy)
        if as_json:
            print_json({"tenant": tenant, "retention": policy})
        else:
            console().print(policy_table(policy))
        return 0

    run(command())


def delete(
    conversation: Conversation,
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Do it, without asking.")] = False,
    dry_run: DryRun = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Delete a conversation for good: all branches, and what nothing else names of its contents."""
    if not yes and not dry_run:
        raise typer.BadParameter("this cannot be undone: add --yes, or --dry-run to see what goes")

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            report = await client.delete_conversation(conversation, dry_run=dry_run)
        _tell(report, as_json=as_json)
        return 0

    run(command())


def _tell(report: RetentionReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        console().print(report_view(report))
