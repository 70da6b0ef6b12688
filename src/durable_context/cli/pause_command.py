"""`durable-context pause` and `durable-context resume`: of a branch, or of all a tenant has."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import DatabaseUrl, Iso, Json, TemporalAddress, Tenant
from durable_context.cli.output import console, print_json, visible
from durable_context.cli.pause_view import pause_text
from durable_context.client import FROM_ENVIRONMENT
from durable_context.models import Pause

Whose = Annotated[
    str | None, typer.Argument(metavar="[CONVERSATION]", help="Its id.", show_default=False)
]
BranchOf = Annotated[
    str | None, typer.Option("--branch", help="Its branch; main by default.", show_default=False)
]
AllConversations = Annotated[
    bool,
    typer.Option("--all-conversations", metavar="", help="All that the tenant has, and will have."),
]


def pause(
    conversation: Whose = None,
    branch: BranchOf = None,
    all_conversations: AllConversations = False,
    because: Annotated[
        str | None, typer.Option(help="Why, for those who look.", show_default=False)
    ] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """Compact nothing of a branch, or of all conversations, until `durable-context resume`.

    Turns are recorded and prompts prepared as before. Paused before, it stays so.
    """
    _check_target(conversation, branch, all_conversations=all_conversations)

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            if conversation is None:
                pauses: Sequence[Pause] = [await client.pause(because)]
            else:
                paused = await client.find_branch(conversation, branch or "main")
                await paused.pause(because)
                pauses = await paused.pauses()
        _tell(_target(conversation, branch, tenant), pauses, iso=iso, as_json=as_json)
        return 0

    run(command())


def resume(
    conversation: Whose = None,
    branch: BranchOf = None,
    all_conversations: AllConversations = False,
    database_url: DatabaseUrl = None,
    temporal: TemporalAddress = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """End the pause of a branch, or that of all conversations; what is due by then is compacted.

    A branch that is paused itself stays so when its tenant's pause ends, and the other way round.
    """
    _check_target(conversation, branch, all_conversations=all_conversations)

    async def command() -> int:
        address, hinted, pauses = temporal or FROM_ENVIRONMENT, False, tuple[Pause, ...]()
        async with await connect(database_url, temporal=address, tenant=tenant) as client:
            if conversation is None:
                await client.resume()
            else:
                resumed = await client.find_branch(conversation, branch or "main")
                hinted = await resumed.resume()
                pauses = await resumed.pauses()
        target = _target(conversation, branch, tenant)
        _tell(target, pauses, iso=iso, as_json=as_json, hinted=hinted)
        return 0

    run(command())


def _check_target(conversation: str | None, branch: str | None, *, all_conversations: bool) -> None:
    if (conversation is None) != all_conversations:
        raise typer.BadParameter("name a conversation, or else give --all-conversations")
    if all_conversations and branch is not None:
        raise typer.BadParameter(f"--branch {branch!r} is not for --all-conversations")


def _target(conversation: str | None, branch: str | None, tenant: str) -> dict[str, str]:
    if conversation is None:
        return {"tenant": tenant}
    return {"tenant": tenant, "conversation_id": conversation, "branch_id": branch or "main"}


def _tell(
    target: dict[str, str],
    pauses: Sequence[Pause],
    *,
    iso: bool,
    as_json: bool,
    hinted: bool | None = None,
) -> None:
    """`hinted`: of what was resumed, whether Temporal knows."""
    if as_json:
        print_json({**target, "pauses": pauses} | ({} if hinted is None else {"hinted": hinted}))
        return
    name = f"tenant {target['tenant']}"
    if "branch_id" in target:
        name = f"{target['conversation_id']} / {target['branch_id']}"
    said = [pause_text(pause, iso=iso) for pause in pauses] or [Text(_resumed(hinted))]
    for text in said:
        console().print(Text.assemble((visible(name), "bold"), " ", text), soft_wrap=True)


def _resumed(hinted: bool | None) -> str:
    when = "is compacted now" if hinted else "is compacted by the catch-up sweep, or a next turn"
    return f"goes on: what is due {when}"
