"""`durable-context rebuild CONVERSATION`: summaries made anew."""

from collections.abc import Callable
from typing import Annotated

import typer

from durable_context import Branch
from durable_context.cli.connecting import connect
from durable_context.cli.failures import FAILED, run
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
from durable_context.compaction.focus import LONGEST, checked_focus
from durable_context.contracts.rebuild import RebuildResult
from durable_context.control.foreseen_rebuild import ForeseenRebuild
from durable_context.control.rebuild_requests import checked_summarizers
from durable_context.errors import InvalidArgument


def rebuild(
    conversation: Conversation,
    branch: BranchName = "main",
    from_turn: Annotated[int, typer.Option("--from", min=1, help="First turn.")] = 1,
    to_turn: Annotated[
        int | None,
        typer.Option(
            "--to", min=1, help="Last turn; the newest checkpoint's if none.", show_default=False
        ),
    ] = None,
    summarizers: Annotated[
        str | None,
        typer.Option(
            help="Asked in turn, separated by commas: 'extractive' or 'model:PROVIDER:NAME'; the"
            " worker's if none.",
            show_default=False,
        ),
    ] = None,
    focus: Annotated[
        str | None,
        typer.Option(
            help=f"What the summaries keep in view, in up to {LONGEST} characters.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what it would do.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for it.")] = 600.0,
    database_url: DatabaseUrl = None,
    temporal: TemporalAddress = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Make the summaries of a branch, or of some of its turns, anew from its raw turns.

    Prompts show the old ones until the new ones are there. Interrupted or out of time, it goes on
    in Temporal. Ends with 1 where a summary could not be made, or where the branch was
    reverted meanwhile.
    """
    specs = None if summarizers is None else [spec.strip() for spec in summarizers.split(",")]
    _check(from_turn, to_turn, specs, focus)

    async def foresee() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            foreseen = await found.foresee_rebuild(from_turn, to_turn)
        if as_json:
            ids = {"conversation_id": conversation, "branch_id": branch, "dry_run": True}
            print_json(ids | foreseen.model_dump(mode="json"))
        else:
            console().print(plain(_foreseen(foreseen)), soft_wrap=True)
        return 0

    async def command() -> int:
        address = temporal or FROM_ENVIRONMENT
        async with await connect(database_url, temporal=address, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            with progress("rebuilding summaries") as show:
                async with watching(lambda: _look(found, show)):
                    result = await found.rebuild(
                        from_turn, to_turn, summarizers=specs, focus=focus, timeout=timeout
                    )
        if as_json:
            ids = {"conversation_id": conversation, "branch_id": branch}
            print_json(ids | result.model_dump(mode="json"))
        else:
            console().print(plain(_said(result)), soft_wrap=True)
        return FAILED if result.degraded or result.reverted else 0

    run(foresee() if dry_run else command())


def _check(from_turn: int, to_turn: int | None, specs: list[str] | None, focus: str | None) -> None:
    if to_turn is not None and to_turn < from_turn:
        raise typer.BadParameter(f"--to {to_turn} comes before --from {from_turn}")
    try:
        checked_summarizers(specs)
        if focus is not None:
            checked_focus(focus)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error)) from error


async def _look(branch: Branch, show: Callable[[int, int | None], None]) -> None:
    """Shows how many nodes are done, of those of the level that is worked on and those below."""
    state = await branch.rebuilding()
    if state is not None:
        done = state.result.replaced + state.result.degraded
        show(done, done + state.left)


def _foreseen(foreseen: ForeseenRebuild) -> str:
    checkpoint = f"the newest checkpoint is at turn {foreseen.checkpoint_turn}"
    if not foreseen.nodes:
        return f"the branch itself has no summaries of these turns; {checkpoint}"
    nodes = "1 summary" if foreseen.nodes == 1 else f"{foreseen.nodes:,} summaries"
    read = f"about {foreseen.tokens_to_read:,} tokens"
    return f"would make {nodes} anew from {read}; {checkpoint}"


def _said(result: RebuildResult) -> str:
    checkpoint = f"the newest checkpoint is at turn {result.checkpoint_turn}"
    if result.reverted:
        return f"ended, because the branch was reverted meanwhile; {checkpoint}"
    if not (result.replaced or result.degraded or result.left):
        return f"the branch itself has no summaries of these turns; {checkpoint}"
    nodes = "1 summary" if result.replaced == 1 else f"{result.replaced:,} summaries"
    said = f"made {nodes} anew from {result.tokens_read:,} tokens; {checkpoint}"
    if result.degraded:
        said += (
            f". {result.degraded:,} could not be made and stay as they were: `durable-context"
            " compactions` says why"
        )
    if result.left:
        said += f". {result.left:,} are left"
    return said
