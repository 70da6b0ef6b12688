"""`durable-context show CONVERSATION [BRANCH]`."""

from typing import Annotated, Any

import typer

from durable_context import Branch, Budget, BudgetExceeded, PreparedContext
from durable_context.cli.branch_view import print_branch
from durable_context.cli.connecting import connect
from durable_context.cli.failures import FAILED, run
from durable_context.cli.options import DEFAULT_BUDGET, BudgetTokens, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, print_json
from durable_context.cli.prompt_view import print_prompt
from durable_context.errors import InvalidArgument


def show(
    conversation: Annotated[str, typer.Argument(help="Its id.", show_default=False)],
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
    message: Annotated[
        str | None,
        typer.Option(help="The user message of that prompt; none asks for a long run's next one."),
    ] = None,
    budget: BudgetTokens = DEFAULT_BUDGET,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Show a branch: frontier, checkpoints, tail, lag, compactions, and the next prompt."""
    wanted = Budget(max_tokens=budget) if prompt or message is not None else None
    if branch is not None and branch_option is not None and branch != branch_option:
        raise typer.BadParameter(f"{branch_option!r} is not {branch!r}: name one branch")
    name = branch if branch is not None else branch_option
    name = "main" if name is None else name
    run(_show(conversation, name, wanted, message, database_url, tenant, as_json))


async def _show(
    conversation_id: str,
    branch_id: str,
    budget: Budget | None,
    message: str | None,
    database_url: str | None,
    tenant: str,
    as_json: bool,
) -> int:
    prepared = None
    async with await connect(database_url, temporal=None, tenant=tenant) as client:
        branch = await client.find_branch(conversation_id, branch_id)
        if budget is not None:
            prepared = await _prepare(branch, message, budget)
        if as_json:
            print_json(await _branch_json(branch, prepared))
        else:
            await _print(branch, prepared)
    return FAILED if isinstance(prepared, BudgetExceeded) else 0


async def _prepare(
    branch: Branch, message: str | None, budget: Budget
) -> PreparedContext | BudgetExceeded:
    try:
        return await branch.prepare(message, budget=budget)
    except InvalidArgument as error:
        if message is not None:
            raise
        raise InvalidArgument(f"{error} (--message TEXT)") from error


async def _branch_json(
    branch: Branch, prepared: PreparedContext | BudgetExceeded | None
) -> dict[str, Any]:
    fields = (await branch.inspect()).model_dump()
    fields["summaries"] = await branch.summaries()
    fields["checkpoints"] = await branch.checkpoints()
    if isinstance(prepared, PreparedContext):
        fields["prompt"] = prepared
    elif prepared is not None:
        fields["budget_exceeded"] = prepared
    return fields


async def _print(branch: Branch, prepared: PreparedContext | BudgetExceeded | None) -> None:
    out = console()
    state = await branch.inspect()
    print_branch(out, state, await branch.summaries(), await branch.checkpoints(), branch.policy)
    if prepared is not None:
        out.print()
        print_prompt(out, prepared)
