"""`durable-context show CONVERSATION [BRANCH]`."""

import json
from typing import Annotated, Any, NamedTuple

import typer

from durable_context import Branch, Budget, BudgetExceeded, PreparedContext
from durable_context.cli.branch_reading import BranchReading, read_branch
from durable_context.cli.branch_view import print_branch
from durable_context.cli.connecting import connect
from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import (
    DEFAULT_BUDGET,
    BudgetTokens,
    Conversation,
    DatabaseUrl,
    Iso,
    Json,
    Tenant,
)
from durable_context.cli.output import console, print_json
from durable_context.cli.prompt_view import print_prompt
from durable_context.errors import InvalidTurn


def show(
    conversation: Conversation,
    branch: Annotated[
        str | None, typer.Argument(help="Its branch; main by default.", show_default=False)
    ] = None,
    branch_option: Annotated[
        str | None, typer.Option("--branch", help="The same.", show_default=False)
    ] = None,
    prompt: Annotated[
        bool,
        typer.Option("--prompt", metavar="", help="Also the exact next prompt, with its manifest."),
    ] = False,
    at_turn: Annotated[
        int | None,
        typer.Option(min=0, help="That prompt as of a fork made at this turn.", show_default=False),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(help="The user message of that prompt; none asks for a long run's next one."),
    ] = None,
    budget: BudgetTokens = DEFAULT_BUDGET,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """Show a branch: lineage, frontier, checkpoints, artifacts, tail, compactions, next prompt."""
    asked = prompt or message is not None or at_turn is not None
    wanted = _Wanted(message, Budget(max_tokens=budget), at_turn) if asked else None
    if branch is not None and branch_option is not None and branch != branch_option:
        raise typer.BadParameter(f"{branch_option!r} is not {branch!r}: name one branch")
    name = branch if branch is not None else branch_option
    name = "main" if name is None else name
    run(_show(conversation, name, wanted, database_url, tenant, iso, as_json))


class _Wanted(NamedTuple):
    """What prompt to make."""

    message: str | None
    budget: Budget
    at_turn: int | None


async def _show(
    conversation_id: str,
    branch_id: str,
    wanted: _Wanted | None,
    database_url: str | None,
    tenant: str,
    iso: bool,
    as_json: bool,
) -> int:
    prepared = None
    async with await connect(database_url, temporal=None, tenant=tenant) as client:
        branch = await client.find_branch(conversation_id, branch_id)
        if wanted is not None:
            prepared = await _prepare(branch, wanted)
        read = await read_branch(client, branch)
    if as_json:
        print_json(_branch_json(read, prepared))
    else:
        _print(read, prepared, iso=iso)
    return FAILED if isinstance(prepared, BudgetExceeded) else 0


async def _prepare(branch: Branch, wanted: _Wanted) -> PreparedContext | BudgetExceeded:
    message, budget, at_turn = wanted
    try:
        return await branch.prepare(message, budget=budget, at_turn=at_turn)
    except InvalidTurn as error:
        if message is not None:
            raise
        raise InvalidTurn(f"{error} (--message TEXT)") from error


def _branch_json(
    read: BranchReading, prepared: PreparedContext | BudgetExceeded | None
) -> dict[str, Any]:
    """`BranchState.to_json()` with whole checkpoints, and what it does not hold."""
    fields = json.loads(read.state.to_json())
    fields["summaries"] = read.summaries
    fields["checkpoints"] = read.checkpoints
    fields["inherited_checkpoints"] = sorted(map(str, read.inherited))
    if isinstance(prepared, PreparedContext):
        fields["prompt"] = prepared
    elif prepared is not None:
        fields["budget_exceeded"] = prepared
    return fields


def _print(
    read: BranchReading, prepared: PreparedContext | BudgetExceeded | None, *, iso: bool
) -> None:
    out = console()
    print_branch(out, read, iso=iso)
    if prepared is not None:
        out.print()
        print_prompt(out, prepared)
