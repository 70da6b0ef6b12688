"""What retention takes and keeps, as tables."""

from datetime import timedelta
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table

from durable_context.cli.output import one_line, plain, titled_table
from durable_context.retention import RetentionPolicy, RetentionReport

_UNITS: Final = ("bytes", "KB", "MB", "GB", "TB")


def report_view(report: RetentionReport) -> RenderableType:
    """Kinds with their counts and bytes, then the conversations by name."""
    verb = "would go" if report.dry_run else "deleted"
    if not report.total:
        return plain(f"Nothing {verb}: {report.examined:,} rows looked at.")
    table = titled_table(f"{report.total:,} {verb}, {size(report.bytes)}")
    table.add_column("kind")
    table.add_column("count", justify="right")
    table.add_column("size", justify="right")
    for taken in report.taken:
        table.add_row(taken.kind.replace("_", " "), f"{taken.count:,}", size(taken.bytes))
    names = [one_line(f"  {name}") for name in report.conversation_ids]
    return Group(table, *([plain("Conversations:"), *names] if names else []))


def policy_table(policy: RetentionPolicy) -> Table:
    """Names as they are set."""
    table = titled_table("Retention")
    table.add_column("name")
    table.add_column("value", justify="right")
    for name in RetentionPolicy.model_fields:
        table.add_row(name, _value(name, getattr(policy, name)))
    return table


def size(count: float) -> str:
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def _value(name: str, value: timedelta | int | None) -> str:
    if value is None:
        return "never" if name.endswith("_after") else "all"
    if not isinstance(value, timedelta):
        return f"{value:,}"
    seconds = round(value.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
