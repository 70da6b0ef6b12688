"""Schedules of sweeps as a table, and how a sweep ended as a line."""

from collections.abc import Sequence
from datetime import timedelta

from rich.table import Table

from durable_context.cli.output import plain, titled_table
from durable_context.cli.times import moment
from durable_context.contracts.sweep import SweepResult
from durable_context.schedules import AppliedSchedule, SweepSchedule

_UNITS = ((24 * 3600, "d"), (3600, "h"), (60, "min"), (1, "s"))


def schedule_table(found: Sequence[SweepSchedule], *, iso: bool) -> Table:
    table = titled_table("Schedules")
    for column in ("sweep", "every", "state", "last", "next", "how the last one ended"):
        table.add_column(column, overflow="fold")
    for one in found:
        table.add_row(
            plain(one.kind),
            plain(_every(one)),
            plain(_state(one)),
            plain(moment(one.last_run_at, iso=iso)),
            plain(moment(one.next_run_at, iso=iso)),
            plain(last_text(one)),
        )
    return table


def last_text(one: SweepSchedule) -> str:
    if one.last_status is None:
        return "-"
    if one.last_error:
        return f"{one.last_status}: {' '.join(one.last_error.split())}"
    if one.last_result is None:
        return one.last_status
    return f"{one.last_status}: {_figures(one.last_result)}"


def applied_line(one: AppliedSchedule) -> str:
    line = f"{one.schedule_id}: {one.change}"
    if one.changed:
        line += f" ({', '.join(one.changed)})"
    if one.kept:
        line += f"; kept as an operator set it: {', '.join(one.kept)}"
    return line


def _figures(result: SweepResult) -> str:
    counts = result.counts.model_dump(exclude={"found"}) | result.counts.found
    shown = [f"{name} {count:,}" for name, count in counts.items() if count]
    text = ", ".join(shown) or "nothing to look at"
    return f"{text}; the next one goes on from there" if result.left_at else text


def _state(one: SweepSchedule) -> str:
    if not one.exists:
        return "missing"
    state = "paused" if one.paused else "active"
    return f"{state}, {one.skipped:,} skipped" if one.skipped else state


def _every(one: SweepSchedule) -> str:
    if not one.exists:
        return "-"
    return "calendar" if one.every is None else _span(one.every)


def _span(every: timedelta) -> str:
    seconds = int(every.total_seconds())
    size, unit = next(unit for unit in _UNITS if seconds % unit[0] == 0 and seconds >= unit[0])
    return f"{seconds // size} {unit}"
