"""`durable-context diff CONVERSATION A B`."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, TypeVar

import typer
from rich.console import Console

from durable_context.cli.checkpoint_option import checkpoint_of
from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import BranchName, Conversation, DatabaseUrl, Json, Tenant
from durable_context.cli.output import console, plain, print_json
from durable_context.control.diffing import Diff, DiffChange, DiffSide

T = TypeVar("T")
_FACTS: Final = 20
"""Entries of a ledger that are shown, and lines of the text, but for --full."""
_LINES: Final = 100
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_STYLES = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}
_SOURCES = {
    "stored": "",
    "similar": ", the text as near as it can be made again",
    "prepared": ", which no manifest tells of: as a fork would prepare it",
}

_PLACE: Final = "TURN|CHECKPOINT_ID"
Place = Annotated[
    str,
    typer.Argument(
        metavar=_PLACE,
        help="Turn of a checkpoint, or its id; with --prompts any turn.",
        show_default=False,
    ),
]


def diff(
    conversation: Conversation,
    a: Place,
    b: Place,
    branch: BranchName = "main",
    prompts: Annotated[
        bool,
        typer.Option("--prompts", metavar="", help="What the model saw at these turns instead."),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", metavar="", help="All of the ledger and of the text.")
    ] = False,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Compare two checkpoints, or what the model saw at two turns: parts, tokens and the text."""
    before, after = checkpoint_of(a, f"first {_PLACE}"), checkpoint_of(b, f"second {_PLACE}")

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            differs = await found.diff(before, after, prompts=prompts)
        if as_json:
            print_json(differs)
        else:
            _print(console(), differs, "prompt" if prompts else "checkpoint", full=full)
        return 0

    run(command())


def _print(out: Console, diff: Diff, name: str, *, full: bool) -> None:
    for side in (diff.before, diff.after):
        out.print(plain(_side(side, name), "bold"), soft_wrap=True)
    if totals := _totals(diff):
        out.print(plain(totals), soft_wrap=True)
    facts = [change for change in diff.changes if change.section == "ledger" and change.text]
    others = [change for change in diff.changes if change not in facts]
    for change in [*others, *_first(facts, _FACTS, full)]:
        sign = _SIGNS[change.change]
        out.print(plain(f"{sign} {_change(change)}", _STYLES[sign]), soft_wrap=True)
    _tell_rest(out, len(facts) - _FACTS, "ledger entries", full)
    if not diff.lines:
        out.print(plain("The texts are the same.", "dim"))
        return
    out.print()
    for line in _first(diff.lines, _LINES, full):
        out.print(plain(line, _STYLES.get(line[:1], "")), soft_wrap=True)
    _tell_rest(out, len(diff.lines) - _LINES, "lines", full)


def _totals(diff: Diff) -> str:
    """Of each section how many parts were added, removed and changed, and of the text lines."""
    counts = Counter((change.section, _SIGNS[change.change]) for change in diff.changes)
    counts.update(("text", line[0]) for line in diff.lines[2:] if line[0] in "+-")
    sections = dict.fromkeys(section for section, _ in counts)
    return " · ".join(
        " ".join([name, *(f"{sign}{counts[name, sign]:,}" for sign in "+-~" if counts[name, sign])])
        for name in sections
    )


def _first(parts: Sequence[T], most: int, full: bool) -> list[T]:
    return list(parts if full else parts[:most])


def _tell_rest(out: Console, count: int, what: str, full: bool) -> None:
    if count > 0 and not full:
        out.print(plain(f"... and {count:,} more {what}: --full shows them", "dim"), soft_wrap=True)


def _side(side: DiffSide, name: str) -> str:
    which = f" ({side.checkpoint_id})" if side.checkpoint_id else ""
    return (
        f"{name} at turn {side.turn_no:,}{which}: {side.token_count:,} tokens"
        f"{_SOURCES[side.source]}"
    )


def _change(change: DiffChange) -> str:
    words = [change.section]
    if change.level is not None:
        words.append(f"of level {change.level}")
    if change.from_turn is not None:
        words.append(f"turns {change.from_turn:,}-{change.to_turn:,}")
    tokens = [count for count in (change.tokens_before, change.tokens_after) if count is not None]
    if tokens:
        words.append(f"{' → '.join(f'{count:,}' for count in tokens)} tokens")
    if change.text:
        words.append(change.text)
    return "  ".join(words)
