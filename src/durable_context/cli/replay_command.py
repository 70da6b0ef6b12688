"""`durable-context replay FILE`."""

import shlex
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from durable_context.cli.connecting import connect
from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import DEFAULT_BUDGET, BudgetTokens, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, plain, print_json
from durable_context.cli.replay_model import ReplayOptions
from durable_context.cli.replay_run import (
    Replay,
    complain_of_failures,
    print_replay,
    replay_policy,
    run_replay,
)
from durable_context.client import FROM_ENVIRONMENT
from durable_context.transcripts import read_transcripts

_SHOWN = 3


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help="Conversations in OpenAI or Anthropic format: JSON, or JSON Lines with a"
            " conversation or a message per line.",
            show_default=False,
        ),
    ],
    stretch: Annotated[
        int | None,
        typer.Option(min=1, help="Record long runs in stretches of so many tool exchanges."),
    ] = None,
    fork: Annotated[
        bool,
        typer.Option(
            "--fork",
            metavar="",
            help="At half of its turns fork each conversation, and replay the rest into both"
            " branches.",
        ),
    ] = False,
    budget: BudgetTokens = DEFAULT_BUDGET,
    conversation: Annotated[
        str, typer.Option(help="Put before each conversation's name to make its id.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Turns of each conversation, at most.")
    ] = None,
    database_url: DatabaseUrl = None,
    temporal: Annotated[
        str,
        typer.Option(help="Address; Temporal's own environment variables by default; or none."),
    ] = FROM_ENVIRONMENT,
    tenant: Tenant = "default",
    pace: Annotated[
        bool,
        typer.Option(
            "--pace/--flat-out",
            metavar="",
            help="Give compaction the time after each turn that a model's answer would take, or"
            " replay as fast as the database takes it.",
        ),
    ] = True,
    wait: Annotated[bool, typer.Option(metavar="", help="Wait for compaction at the end.")] = True,
    wait_seconds: Annotated[
        float, typer.Option(min=0, help="Bound on the wait at the end.")
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Prepare, check and record every turn of recorded conversations.

    Replaying a file again records nothing twice.
    """
    options = ReplayOptions(
        budget=budget, prefix=conversation, stretch=stretch, limit=limit, fork=fork
    )
    if not pace or temporal == "none":
        options = options.model_copy(update={"pace": None})
    bound = timedelta(seconds=wait_seconds) if wait and temporal != "none" else None
    run(_replay(file, options, database_url, temporal, tenant, bound, as_json))


async def _replay(
    file: Path,
    options: ReplayOptions,
    database_url: str | None,
    temporal: str,
    tenant: str,
    wait: timedelta | None,
    as_json: bool,
) -> int:
    transcripts = read_transcripts(file)
    address = None if temporal == "none" else temporal
    async with await connect(
        database_url, temporal=address, tenant=tenant, policy=replay_policy()
    ) as client:
        replay = await run_replay(client, transcripts, options, temporal=address, wait=wait)
    if as_json:
        print_json(replay.figures)
    else:
        out = console()
        print_replay(replay, options.budget, out)
        _say_what_to_show(replay, tenant, out)
    complain_of_failures(replay, wait)
    return 0 if replay.succeeded else FAILED


def _say_what_to_show(replay: Replay, tenant: str, out: Console) -> None:
    option = "" if tenant == "default" else f" --tenant {shlex.quote(tenant)}"
    names = replay.conversations
    commands = [
        f"durable-context show{option} -- {shlex.quote(name)}"
        if name.startswith("-")
        else f"durable-context show {shlex.quote(name)}{option}"
        for name in names[:_SHOWN]
    ]
    more = f"\n  … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    out.print()
    out.print(plain("Look at: " + "\n         ".join(commands) + more), soft_wrap=True)
