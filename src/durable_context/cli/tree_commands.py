"""`durable-context checkpoints CONVERSATION` and `durable-context summaries CONVERSATION`: the
history of a branch's summary tree, with what was replaced or rejected.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from durable_context import Branch, Checkpoint, Summary
from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import BranchName, Conversation, DatabaseUrl, Iso, Json, Tenant
from durable_context.cli.output import console, print_json, titled_table, visible
from durable_context.cli.replay_view import turn_range
from durable_context.cli.times import moment

Current = Annotated[
    bool, typer.Option("--current", metavar="", help="Without what was replaced or rejected.")
]
_STYLES = {"current": "", "superseded": "dim", "rejected": "red"}


def checkpoints(
    conversation: Conversation,
    branch: BranchName = "main",
    current: Current = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """List checkpoints with their ids, which `diff` and `revert` take: also superseded ones."""

    async def listed(seen: Branch) -> int:
        found = await seen.checkpoints(replaced=not current)
        if as_json:
            print_json({"checkpoints": found})
        else:
            console().print(_checkpoints(found, iso=iso) if found else "no checkpoints")
        return 0

    run(_of_branch(listed, conversation, branch, database_url, tenant))


def summaries(
    conversation: Conversation,
    branch: BranchName = "main",
    current: Current = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """List summaries: their turns, who made them, and which were replaced or rejected."""

    async def listed(seen: Branch) -> int:
        found = await seen.summaries(replaced=not current)
        if as_json:
            print_json({"summaries": found})
        else:
            console().print(_summaries(found, iso=iso) if found else "no summaries")
        return 0

    run(_of_branch(listed, conversation, branch, database_url, tenant))


async def _of_branch(
    listed: Callable[[Branch], Awaitable[int]],
    conversation_id: str,
    branch_id: str,
    database_url: str | None,
    tenant: str,
) -> int:
    async with await connect(database_url, temporal=None, tenant=tenant) as client:
        return await listed(await client.find_branch(conversation_id, branch_id))


def _checkpoints(found: Sequence[Checkpoint], *, iso: bool) -> Table:
    table = titled_table(f"checkpoints: {len(found)}, newest last")
    for name in ("at turn", "revision", "nodes", "tokens"):
        table.add_column(name, justify="right")
    for name in ("state", "made", "id"):
        table.add_column(name, no_wrap=True)
    for one in found:
        table.add_row(
            *(str(one.turn_no), str(one.revision), str(len(one.frontier))),
            f"{one.token_count:,}",
            Text(one.state, style=_STYLES.get(one.state, "")),
            moment(one.created_at, iso=iso),
            str(one.checkpoint_id),
        )
    return table


def _summaries(found: Sequence[Summary], *, iso: bool) -> Table:
    table = titled_table(f"summaries: {len(found)}, by turn")
    table.add_column("turns", no_wrap=True)
    for name in ("level", "tokens"):
        table.add_column(name, justify="right")
    for name in ("state", "made"):
        table.add_column(name, no_wrap=True)
    table.add_column("by, headline", overflow="fold", ratio=1)
    for one in found:
        table.add_row(
            *(turn_range(one.from_turn, one.to_turn), str(one.level), f"{one.token_count:,}"),
            Text(one.state, style=_STYLES.get(one.state, "")),
            moment(one.created_at, iso=iso),
            _words(one),
        )
    return table


def _words(one: Summary) -> Text:
    text = Text(" ".join(visible(one.made_by).split()), style="dim")
    if one.degraded:
        text.append(" · degraded", style="yellow")
    return text.append(f" · {' '.join(visible(one.headline).split())}", style="not dim")
