"""Moments on the command line: local time, or ISO 8601 in UTC on request."""

from datetime import UTC, datetime


def moment(value: datetime | None, *, iso: bool = False) -> str:
    """Local time with its zone; with `iso` as 2026-01-31T12:00:00Z. A dash for None."""
    if value is None:
        return "-"
    if iso:
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{value.astimezone():%Y-%m-%d %H:%M:%S %Z}"
