"""How branches stand, on the terminal: totals, then one row for each."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from durable_context.cli.output import one_line, titled_table
from durable_context.cli.pause_view import pause_text
from durable_context.cli.replay_view import turn_range
from durable_context.cli.times import moment
from durable_context.cli.worth_view import age_text, balance_text, price_text
from durable_context.control.status import BranchStatus, StatusPage, StatusTotals

_NAME_WIDTH = 34
_SHORT_LINE = 160


def print_status(out: Console, page: StatusPage, *, iso: bool) -> None:
    if page.totals is not None:
        out.print(_totals(page.totals), soft_wrap=True)
    if page.branches:
        out.print()
        out.print(_table(page, iso=iso))
    if page.after is not None:
        out.print(Text(f"more with --after {page.after}", style="dim"), soft_wrap=True)


def _totals(totals: StatusTotals) -> Text:
    text = Text()
    text.append(_counted(totals.branches, "branch", "branches"), style="bold")
    text.append(f", {_counted(totals.turns, 'turn', 'turns')}")
    lag = f"{_counted(totals.lag_turns, 'turn', 'turns')} and {totals.lag_tokens:,} tokens wait"
    text.append(f" · {totals.behind:,} behind (about {lag})", "yellow" if totals.behind else "")
    text.append(f" · {totals.running:,} running")
    text.append(f" · {totals.failed:,} failed", "red" if totals.failed else "")
    text.append(f" · {totals.paused:,} paused")
    text.append(" · balance ").append_text(balance_text(totals.balance))
    text.append(f" tokens for {price_text(totals.price)}")
    if totals.unpriced:
        text.append(f" and {_counted(totals.unpriced, 'compaction', 'compactions')} of no known")
        text.append(" price")
    return text


def _table(page: StatusPage, *, iso: bool) -> Table:
    table = titled_table("furthest behind first")
    table.add_column("branch", max_width=_NAME_WIDTH)
    for name in ("head", "checkpoint", "lag", "balance"):
        table.add_column(name, justify="right")
    table.add_column("state", overflow="fold", ratio=1)
    for branch in page.branches:
        table.add_row(
            one_line(f"{branch.conversation_id} / {branch.branch_id}"),
            f"{branch.head_turn:,}",
            f"{branch.checkpoint_turn:,}",
            _lag(branch),
            balance_text(branch.balance),
            Text(" · ").join(_state(branch, iso=iso)),
        )
    return table


def _lag(branch: BranchStatus) -> Text:
    lag = branch.lag
    if not lag.turns:
        return Text("-")
    shown = f"{lag.turns:,}, {lag.tokens:,} tokens, {age_text(lag.seconds)}"
    return Text(shown, style="yellow" if branch.is_behind else "")


def _state(branch: BranchStatus, *, iso: bool) -> Iterator[Text]:
    if (running := branch.running) is not None:
        turns = turn_range(running.from_turn, running.to_turn)
        yield Text(f"{running.reason} of {turns} since {moment(running.started_at, iso=iso)}")
        if running.error:
            yield one_line(f"fails so far: {running.error[:_SHORT_LINE]}", style="yellow")
    if (failed := branch.failed) is not None:
        turns = turn_range(failed.from_turn, failed.to_turn)
        error = (failed.error or "")[:_SHORT_LINE]
        text = Text(f"failed {moment(failed.finished_at, iso=iso)} at {turns}: ", style="red")
        yield text.append_text(one_line(error))
    for pause in branch.pauses:
        yield pause_text(pause, iso=iso)
    if branch.pins:
        yield Text(_counted(branch.pins, "pin", "pins"))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
