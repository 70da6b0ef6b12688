"""`durable-context compactions [CONVERSATION]`."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from durable_context.cli.connecting import connect
from durable_context.cli.failures import run
from durable_context.cli.options import DatabaseUrl, Iso, Json, Tenant
from durable_context.cli.output import console, one_line, print_json, titled_table, visible
from durable_context.cli.replay_view import turn_range
from durable_context.cli.times import moment
from durable_context.cli.worth_view import balance_text, price_text
from durable_context.models import Compaction

_NAME_WIDTH = 28
_LONGEST = 300
_STYLES = {"failed": "red", "skipped": "dim", "running": "yellow"}


def compactions(
    conversation: Annotated[
        str | None, typer.Argument(help="Its id; all by default.", show_default=False)
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", help="Its branch; main by default.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, from the newest.")] = 20,
    database_url: DatabaseUrl = None,
    tenant: Tenant = "default",
    iso: Iso = False,
    as_json: Json = False,
) -> None:
    """List compactions: what was made or skipped and why, what it cost, and what it saves.

    A balance is in tokens: what was saved with each turn since, less what models read and wrote,
    and what was broken of a provider's cache.
    """
    if conversation is None and branch is not None:
        raise typer.BadParameter(f"--branch {branch!r} is of a conversation: name that, too")

    async def command() -> int:
        async with await connect(database_url, temporal=None, tenant=tenant) as client:
            if conversation is None:
                found = await client.compactions(limit)
            else:
                one = await client.find_branch(conversation, branch or "main")
                found = await one.compactions(limit)
        if as_json:
            print_json({"compactions": found})
        else:
            _print(found, names=conversation is None, iso=iso)
        return 0

    run(command())


def _print(found: Sequence[Compaction], *, names: bool, iso: bool) -> None:
    out = console()
    if not found:
        out.print("no compactions")
        return
    out.print(_table(found, names=names, iso=iso))
    prices = [one.price for one in found]
    total = sum((price for price in prices if price is not None), Decimal(0))
    text = Text("balance of these: ").append_text(balance_text(sum(one.balance for one in found)))
    text.append(f" tokens for {price_text(total)}")
    unknown = prices.count(None)
    out.print(text.append(f", {unknown} of no known price" if unknown else ""), soft_wrap=True)


def _table(found: Sequence[Compaction], *, names: bool, iso: bool) -> Table:
    table = titled_table("compactions, newest first")
    table.add_column("begun", no_wrap=True)
    if names:
        table.add_column("branch", max_width=_NAME_WIDTH)
    for name in ("turns", "what", "status"):
        table.add_column(name, no_wrap=True)
    table.add_column("figures and reasons", overflow="fold", ratio=1)
    for one in found:
        table.add_row(
            moment(one.started_at, iso=iso),
            *([one_line(f"{one.conversation_id} / {one.branch_id}")] if names else []),
            turn_range(one.from_turn, one.to_turn),
            Text(f"{one.reason} {one.level}" if one.level else one.reason),
            Text(one.status, style=_STYLES.get(one.status, "")),
            Text(" · ").join(_details(one)),
        )
    return table


def _details(one: Compaction) -> Iterator[Text]:
    if one.attempts > 1:
        yield Text(f"{one.attempts} tries")
    if one.status == "completed":
        yield Text(f"{_tokens(one.tokens_before)} → {_tokens(one.tokens_after)} tokens")
    if one.input_tokens or one.output_tokens:
        price = price_text(one.price)
        yield Text(f"read {one.input_tokens:,}, wrote {one.output_tokens:,} for {price}")
    if one.saved_tokens is not None:
        yield Text(f"{_saved(one)}, broke {_tokens(one.broken_tokens)}")
    if one.balance:
        yield Text("balance ").append_text(balance_text(one.balance))
    if one.focus:
        yield _words(f"focus: {one.focus}")
    if one.error:
        yield _words(one.error)


def _saved(one: Compaction) -> str:
    if one.saved_until is None:
        return f"saves {one.saved_tokens:,} a turn"
    return f"reverted after turn {one.saved_until:,}: saved {one.saved_tokens:,} a turn until then"


def _words(text: str) -> Text:
    return Text(" ".join(visible(text[:_LONGEST]).split()))


def _tokens(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"
