"""Options the commands share."""

from typing import Annotated

import typer

from durable_context.client import DATABASE_URL

DEFAULT_BUDGET = 32_000

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", envvar=DATABASE_URL, help="PostgreSQL.", show_default=False),
]
Conversation = Annotated[str, typer.Argument(help="Its id.", show_default=False)]
BranchName = Annotated[str, typer.Option("--branch", help="Its branch.")]
Tenant = Annotated[str, typer.Option(help="Whose conversations.")]
BudgetTokens = Annotated[int, typer.Option("--budget", min=1, help="Tokens a prompt may have.")]
Json = Annotated[
    bool, typer.Option("--json", metavar="", help="One JSON object, on the last line of output.")
]
Iso = Annotated[
    bool, typer.Option("--iso", metavar="", help="Times in UTC, as ISO 8601; local otherwise.")
]
TemporalAddress = Annotated[
    str | None,
    typer.Option(
        "--temporal",
        envvar="TEMPORAL_ADDRESS",
        help="Temporal's host and port; else Temporal's own environment configuration.",
        show_default=False,
    ),
]
