"""Made-up turns with results so large that they become artifacts."""

from typing import Any

from tests.turns import exchange, numbered

BURIED = "Zanzibar"
"""A word of the middle of every report, which no view of it shows."""


def report(name: str, lines: int = 400) -> str:
    """About 75 bytes a line."""
    rows = [
        f"{name} row {number}: container {number * 37:06d} was weighed at gate {number % 9}, ok."
        for number in range(1, lines + 1)
    ]
    rows[lines // 2] = f"{name}: the container from {BURIED} was 1,200 kg too heavy."
    return "\n".join(rows)


def reporting(turn: int, content: str) -> list[dict[str, Any]]:
    """A turn whose one tool result has the content."""
    asked, answered = numbered(turn)
    return [asked, *exchange(f"call-{turn}", content, "get_report", ship=turn), answered]
