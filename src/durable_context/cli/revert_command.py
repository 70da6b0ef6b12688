"""`durable-context revert CONVERSATION --to TURN`."""

from typing import Annotated

import typer
from rich.text import Text

from durable_context.cli.checkpoint_option import checkpoint_of
from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import BranchName, Conversation, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, print_json
from durable_context.control.reversal import Reversal

_FIGURES = {
    "nodes_rejected": "summaries rejected",
    "drafts_rejected": "drafts rejected",
    "checkpoints_rejected": "checkpoints rejected",
    "restored": "summaries that had been replaced published anew",
    "compactions_failed": "running compactions ended",
}


def revert(
    conversation: Conversation,
    to: Annotated[
        str,
        typer.Option(
            metavar="TURN|CHECKPOINT_ID",
            help="Turn of the checkpoint to go back to, or its id; 0 for none at all.",
            show_default=False,
        ),
    ],
    branch: BranchName = "main",
    because: Annotated[
        str | None, typer.Option(help="Why, for those who look later.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only say what it would do.")
    ] = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Go back to an older checkpoint. Later summaries are rejected for good, and kept for audit.

    Turns, artifacts and forks stay as they are; the next compaction builds on the checkpoint. The
    ids of checkpoints are in `durable-context show --json`.
    """
    target = checkpoint_of(to, "--to")

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            reversal = await found.foresee_revert(target)
            if not dry_run:
                newest = await found.revert(target, because=because)
                current = newest.checkpoint_id if newest else None
                reversal = reversal.model_copy(update={"checkpoint_id": current})
            branches = await client.branches(conversation)
        [head_turn] = [info.head_turn for info in branches if info.branch_id == branch]
        _tell(reversal, head_turn, dry_run=dry_run, as_json=as_json)
        return 0

    run(command())


def _tell(reversal: Reversal, head_turn: int, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(reversal.model_dump() | {"dry_run": dry_run})
        return
    out = console()
    out.print(_summary(reversal, dry_run=dry_run), soft_wrap=True)
    for name, words in _FIGURES.items():
        count = getattr(reversal, name)
        if count:
            out.print(Text(f"  {count:,} {words}"), soft_wrap=True)
    if reversal.to_turn < reversal.from_turn:
        out.print(Text(_waiting(reversal.to_turn + 1, head_turn, dry_run)), soft_wrap=True)


def _waiting(from_turn: int, head_turn: int, dry_run: bool) -> str:
    waits = "would wait then" if dry_run else "wait now"
    return (
        f"Turns {from_turn:,}-{head_turn:,} {waits}: the next turn or catch-up compacts what of"
        " them is due again. `durable-context pause` puts that off; `durable-context compact"
        " --focus` makes other summaries of them."
    )


def _summary(reversal: Reversal, *, dry_run: bool) -> Text:
    to_turn, from_turn = reversal.to_turn, reversal.from_turn
    where = f"the checkpoint of turn {to_turn:,}" if to_turn else "no checkpoint"
    if from_turn == to_turn and not reversal.changes:
        return Text(f"The branch stands at {where} already.")
    does = "would go back" if dry_run else "went back"
    return Text(f"The branch {does} from turn {from_turn:,} to {where}.", style="bold")
