"""Compactions that ended, counted by who wrote it down: once each, also where a step is repeated.
What ends in a transaction is counted after it.
"""

from collections.abc import Iterable
from typing import Literal

from durable_context.telemetry.instruments import (
    compaction_tokens_after,
    compaction_tokens_before,
    compactions,
    summaries,
)
from durable_context.telemetry.recipes import label_of

State = Literal["completed", "failed", "skipped"]
STATES: tuple[State, ...] = ("completed", "failed", "skipped")
REASONS = ("turn", "request", "sweep", "merge", "upgrade", "rebuild")


def count_nothing() -> None:
    """So that the first of each kind is an increase, which a new series would not be."""
    for reason in REASONS:
        for state in STATES:
            compactions.add(0, {"state": state, "reason": reason})


def count_completed(reason: str, tokens_before: int, tokens_after: int) -> None:
    compactions.add(1, {"state": "completed", "reason": reason})
    compaction_tokens_before.add(tokens_before, {"reason": reason})
    compaction_tokens_after.add(tokens_after, {"reason": reason})


def count_failed(reasons: Iterable[str]) -> None:
    for reason in reasons:
        compactions.add(1, {"state": "failed", "reason": reason})


def count_skipped(reason: str) -> None:
    compactions.add(1, {"state": "skipped", "reason": reason})


def count_summary(recipe: str, level: int | Literal["artifact"], *, degraded: bool) -> None:
    """`recipe`: without a focus, whose variety knows no end."""
    labels = {"recipe": label_of(recipe), "level": str(level), "degraded": degraded}
    summaries.add(1, labels)
