"""Checks of what callers pass besides messages, before anything is written."""

from datetime import datetime, timedelta
from typing import Any, Literal, get_args
from uuid import UUID

from durable_context.errors import InvalidArgument, InvalidTurn
from durable_context.prompts.prepared import Budget, PreparedContext

OnConflict = Literal["error", "append"]


def check_choice(name: str, value: object, allowed: Any) -> None:
    """`allowed` is a Literal type."""
    if value not in get_args(allowed):
        raise InvalidTurn(f"{name}={value!r:.80}; allowed are {', '.join(get_args(allowed))}")


def check_budget(budget: object) -> None:
    if not isinstance(budget, Budget):
        raise InvalidArgument(f"budget={budget!r:.80}; it must be a Budget(max_tokens=...)")


def seconds(timeout: timedelta | float) -> timedelta:
    """A timeout, which may be given in seconds."""
    if isinstance(timeout, timedelta):
        return timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"timeout={timeout!r:.80}; it must be a timedelta or seconds")
    return timedelta(seconds=timeout)


def check_time(occurred_at: datetime | None) -> None:
    if occurred_at is None:
        return
    if occurred_at.tzinfo is None:
        raise InvalidTurn(f"occurred_at={occurred_at!r} has no time zone; it needs one")
    if not 1 < occurred_at.year < 9999:
        raise InvalidTurn(f"occurred_at={occurred_at!r}: allowed are the years 2 to 9998")


def head_expected(
    branch_uuid: UUID,
    prepared: PreparedContext | None,
    expected_head: int | None,
    on_conflict: OnConflict,
) -> int | None:
    """The head a turn must find, None if any will do."""
    if prepared is not None and not isinstance(prepared, PreparedContext):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"prepared={prepared!r:.80} is not a PreparedContext")
    if prepared is not None and prepared.manifest.branch_uuid != branch_uuid:
        raise InvalidTurn("prepared= was made for another branch")
    if expected_head is not None and not isinstance(expected_head, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"expected_head={expected_head!r:.80} must be a turn number")
    if on_conflict == "append":
        return None
    if expected_head is not None or prepared is None:
        return expected_head
    return prepared.manifest.head_turn


def check_turn(name: str, turn_no: int | None) -> None:
    """A turn number from 0. Whether there is such a turn is for the database to say."""
    if turn_no is None:
        return
    if isinstance(turn_no, bool) or not isinstance(turn_no, int) or not 0 <= turn_no < 2**31:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name}={turn_no!r:.80}; it must be a turn number, from 0")
