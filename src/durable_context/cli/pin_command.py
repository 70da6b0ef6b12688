"""`durable-context pin CONVERSATION [TURN]` and `durable-context unpin CONVERSATION TURN`."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from durable_context import Branch, Pin
from durable_context.cli.connecting import connect
from durable_context.cli.failures import FAILED, complain, run
from durable_context.cli.options import BranchName, Conversation, DatabaseUrl, Iso, Json, Tenant
from durable_context.cli.output import Line, console, one_line, print_json
from durable_context.cli.times import moment

_NAMED: Final = 10

PinnedFact = Annotated[
    str | None,
    typer.Option(
        "--fact",
        help="Not the turn but the fact of its ledger with this value.",
        show_default=False,
    ),
]


def pin(
    conversation: Conversation,
    turn: Annotated[
        int | None,
        typer.Argument(help="The turn to pin; without it pins are listed.", show_default=False),
    ] = None,
    fact: PinnedFact = None,
    branch: BranchName = "main",
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """Keep a turn, or a fact of it, word for word in every prompt; or list what is kept so."""
    if turn is None and fact is not None:
        raise typer.BadParameter("--fact belongs to a turn: name it, too")

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            if turn is None:
                return await _list(found, iso=iso, as_json=as_json)
            return await _pin(found, turn, fact, as_json=as_json)

    run(command())


def unpin(
    conversation: Conversation,
    turn: Annotated[int, typer.Argument(help="The pinned turn.", show_default=False)],
    fact: PinnedFact = None,
    branch: BranchName = "main",
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Take back a pin: of a turn, or of a fact of it. Ends with 1 where there is none."""

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            found = await client.find_branch(conversation, branch)
            return await _unpin(found, turn, fact, as_json=as_json)

    run(command())


async def _pin(branch: Branch, turn: int, fact: str | None, *, as_json: bool) -> int:
    made = await branch.pin(turn, fact=fact)
    if as_json:
        print_json({"pin": made})
    else:
        console().print(_what(made.turn_no, made.value).append(" is pinned", style="not bold"))
    return 0


async def _unpin(branch: Branch, turn: int, fact: str | None, *, as_json: bool) -> int:
    was_pinned = await branch.unpin(turn, fact=fact)
    if as_json:
        print_json({"turn_no": turn, "fact": fact, "was_pinned": was_pinned})
    if not was_pinned:
        complain(f"{_what(turn, fact)} was not pinned; {_pinned(await branch.pins())}")
        return FAILED
    if not as_json:
        console().print(_what(turn, fact).append(" is not pinned any more", style="not bold"))
    return 0


def _pinned(pins: Sequence[Pin]) -> str:
    """Those of the branch, by turn."""
    if not pins:
        return "the branch has no pins"
    named = [str(_what(one.turn_no, one.value)) for one in pins[-_NAMED:]]
    earlier = "earlier ones, " if len(pins) > _NAMED else ""
    return f"pinned are {earlier}{', '.join(named)}"


async def _list(branch: Branch, *, iso: bool, as_json: bool) -> int:
    pins = await branch.pins()
    if as_json:
        print_json({"pins": pins})
    else:
        await _print(console(), branch, pins, iso=iso)
    return 0


async def _print(out: Console, branch: Branch, pins: Sequence[Pin], *, iso: bool) -> None:
    if not pins:
        out.print("nothing is pinned")
    for one in pins:
        line = Text.assemble((f"{one.turn_no:>5}", "bold"), f"  {moment(one.pinned_at, iso=iso)}  ")
        if one.value is None:
            (turn,) = await branch.turns(one.turn_no, one.turn_no)
            line.append("turn · ").append_text(one_line(turn.digest, style="dim"))
        else:
            line.append(f"{one.kind} · ").append_text(one_line(one.value, style="dim"))
        out.print(Line(line))


def _what(turn: int, fact: str | None) -> Text:
    if fact is None:
        return Text(f"turn {turn}", style="bold")
    return one_line(f"{fact} of turn {turn}", style="bold")
