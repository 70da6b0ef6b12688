"""Checks of what callers pass besides messages, before anything is written."""

from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from durable_context.branch_store import BranchRow
from durable_context.errors import InvalidArgument, InvalidTurn
from durable_context.prompts.prepared import Budget, PreparedContext

OnConflict = Literal["error", "append"]
LARGEST = 2**31 - 1
LONGEST_SECONDS = 1_000_000_000


def check_choice(name: str, value: object, allowed: Any) -> None:
    """`allowed` is a Literal type."""
    if value not in get_args(allowed):
        raise InvalidTurn(f"{name}={value!r:.80}; allowed are {', '.join(get_args(allowed))}")


def check_budget(budget: object) -> None:
    if not isinstance(budget, Budget):
        raise InvalidArgument(f"budget={budget!r:.80}; it must be a Budget(max_tokens=...)")


def seconds(timeout: timedelta | float, name: str = "timeout") -> timedelta:
    """A timeout, which may be given in seconds."""
    if isinstance(timeout, timedelta):
        return timeout
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name}={timeout!r:.80}; it must be a timedelta or seconds")
    if not -LONGEST_SECONDS <= timeout <= LONGEST_SECONDS:
        raise InvalidArgument(f"{name}={timeout!r:.80}; allowed are up to {LONGEST_SECONDS:,} s")
    return timedelta(seconds=timeout)


def positive_seconds(timeout: timedelta | float, name: str) -> timedelta:
    """The same of a time that must not be over at once."""
    bound = seconds(timeout, name)
    if bound <= timedelta(0):
        raise InvalidArgument(f"{name}={timeout!r:.80}; it must be more than 0 s")
    return bound


def check_time(occurred_at: datetime | None) -> None:
    if occurred_at is None:
        return
    if not isinstance(occurred_at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"occurred_at={occurred_at!r:.80}; it must be a datetime with a zone")
    if occurred_at.tzinfo is None:
        raise InvalidTurn(f"occurred_at={occurred_at!r} has no time zone; it needs one")
    if not 1 < occurred_at.year < 9999:
        raise InvalidTurn(f"occurred_at={occurred_at!r}: allowed are the years 2 to 9998")


def head_expected(
    row: BranchRow,
    prepared: PreparedContext | None,
    expected_head: int | None,
    on_conflict: OnConflict,
) -> int | None:
    """The head a turn must find, None if any will do."""
    if prepared is not None and not isinstance(prepared, PreparedContext):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidTurn(f"prepared={prepared!r:.80} is not a PreparedContext")
    if prepared is not None and not _is_of(row, prepared):
        raise InvalidTurn(
            "prepared= was made for another branch; a fork takes its own, and its parent's of"
            " at_turn= the turn it was forked at"
        )
    check_turn("expected_head", expected_head)
    if on_conflict == "append":
        return None
    if expected_head is not None or prepared is None:
        return expected_head
    return prepared.manifest.head_turn


def _is_of(row: BranchRow, prepared: PreparedContext) -> bool:
    made_for, at_turn = prepared.manifest.branch_uuid, prepared.manifest.head_turn
    return made_for == row.branch_uuid or (made_for, at_turn) == (row.parent_uuid, row.fork_turn)


def check_turn(name: str, turn_no: int | None) -> None:
    """A turn number from 0. Whether there is such a turn is for the database to say."""
    if turn_no is None:
        return
    if not _is_number(turn_no):
        raise InvalidArgument(f"{name}={turn_no!r:.80}; it must be a turn number, from 0")


def check_limit(limit: object) -> None:
    if not _is_number(limit):
        raise InvalidArgument(f"limit={limit!r:.80}; it must be a number, from 0")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidTurn(f"{name}={value!r:.80}; allowed are True and False")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST
