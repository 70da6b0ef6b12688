"""Messages that no branch has recorded, as summarizers read them."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeGuard

from durable_context.models import Message, Turn
from durable_context.summarizers import Summarizer


def is_summarizer(value: object) -> TypeGuard[Summarizer]:
    """By its recipe too: a function may have any attributes, as a test's mock does."""
    is_named = isinstance(getattr(value, "recipe", None), str)
    return is_named and callable(getattr(value, "summarize", None))


def as_turn(turn_no: int, messages: Sequence[Message], tokens: int, said: datetime) -> Turn:
    """A complete turn of them, said at that time."""
    return Turn(
        turn_no=turn_no,
        turn_key=f"messages-{turn_no}",
        messages=tuple(messages),
        token_count=tokens,
        outcome="complete",
        continues=False,
        occurred_at=said,
        recorded_at=said,
        digest="",
    )
