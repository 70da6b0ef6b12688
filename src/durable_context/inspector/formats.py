"""How values look on pages: filters of the templates."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from durable_context.cli.output import visible
from durable_context.cli.worth_view import price_text


def number(value: float | None) -> str:
    """`12,345`; a question mark where it is not known."""
    return "?" if value is None else f"{value:,}"


def when(value: datetime | None) -> str:
    """In UTC, to the second."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def ago(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def turns(from_turn: int, to_turn: int) -> str:
    return f"turn {from_turn:,}" if from_turn == to_turn else f"turns {from_turn:,}–{to_turn:,}"


def lasted(time: timedelta) -> str:
    """`850 ms`, `4.2 s`, `12 min`."""
    seconds = time.total_seconds()
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else ago(seconds)


def signed(value: int) -> str:
    return f"{value:+,}" if value else "0"


def size(count: int) -> str:
    """`12 B`, `3.4 kB`, `1.2 MB`."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:,.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:,.1f} MB"


def text(value: object) -> str:
    """Characters that do not show, or that reorder what stands around them, as their escapes."""
    return visible(str(value))


def short(value: str, most: int) -> str:
    """The beginning, with an ellipsis where something is left out."""
    return value if len(value) <= most else f"{value[: most - 1]}…"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "number": number,
    "when": when,
    "ago": ago,
    "turns": turns,
    "text": text,
    "short": short,
    "lasted": lasted,
    "signed": signed,
    "size": size,
    "price": price_text,
}
