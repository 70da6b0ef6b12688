"""`durable-context compact CONVERSATION`: what is due, now."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from durable_context import Branch, ContextClient
from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import (
    BranchName,
    Conversation,
    DatabaseUrl,
    Json,
    TemporalAddress,
    Tenant,
)
from durable_context.cli.output import console, plain, print_json
from durable_context.cli.progress import progress, watching
from durable_context.client import FROM_ENVIRONMENT
from durable_context.compaction.focus import LONGEST, base_recipe, checked_focus
from durable_context.contracts import CompactionResult
from durable_context.errors import InvalidArgument


def compact(
    conversation: Conversation,
    branch: BranchName = "main",
    focus: Annotated[
        str | None,
        typer.Option(
            help=f"What the summaries made now keep in view, in up to {LONGEST} characters.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = 600.0,
    database_url: DatabaseUrl = None,
    temporal: TemporalAddress = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Compact all that is due of a branch now, and wait for it.

    Interrupted or out of time, it goes on in Temporal.
    """
    if focus is not None:
        _check(focus)
    address = temporal or FROM_ENVIRONMENT

    async def command() -> int:
        async with await connect(database_url, temporal=address, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            result = await _compact(client, found, focus, timeout)
        if as_json:
            ids = {"conversation_id": conversation, "branch_id": branch}
            print_json(ids | result.model_dump(mode="json"))
        else:
            console().print(plain(_said(result, focus)), soft_wrap=True)
        return 0

    run(command())


def _check(focus: str) -> None:
    try:
        checked_focus(focus)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from error


async def _compact(
    client: ContextClient, branch: Branch, focus: str | None, timeout: float
) -> CompactionResult:
    with progress("compacting turns") as show:
        look = await _looking(client, branch, show)
        async with watching(look):
            return await branch.compact(focus=focus, timeout=timeout)


async def _looking(
    client: ContextClient, branch: Branch, show: Callable[[int, int | None], None]
) -> Callable[[], Awaitable[None]]:
    """Gives what shows how far it is, of the turns that need not stay raw."""
    branches = await client.branches(branch.conversation_id)
    [begun] = [info for info in branches if info.branch_id == branch.branch_id]
    to_do = max(0, begun.head_turn - branch.policy.keep_raw_turns - begun.checkpoint_turn)

    async def look() -> None:
        state = await branch.compacting()
        if state is not None:
            show(max(0, state.checkpoint_turn - begun.checkpoint_turn), to_do)

    return look


def _said(result: CompactionResult, focus: str | None) -> str:
    checkpoint = f"the newest checkpoint is at turn {result.checkpoint_turn}"
    done = f"nothing is due; {checkpoint}"
    if result.passes:
        passes = "1 pass" if result.passes == 1 else f"{result.passes} passes"
        done = f"compacted in {passes} by {result.recipe}; {checkpoint}"
    if focus is not None and base_recipe(result.recipe) == result.recipe:
        done += (
            ". Nothing was made with this focus: `durable-context rebuild --focus` makes anew what"
            " is there"
        )
    return done
