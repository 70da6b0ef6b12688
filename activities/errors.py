"""What domain errors mean to Temporal. No message of a driver or a model gets into a history."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from durable_context.contracts import (
    STALE_PLAN,
    SUMMARIZER_REJECTED,
    SUMMARIZER_UNAVAILABLE,
)
from durable_context.errors import (
    DurableContextError,
    StalePlan,
    SummarizerRejected,
    SummarizerUnavailable,
    UnknownBranch,
)

LONGEST_WAIT = timedelta(minutes=15)


@contextmanager
def as_temporal_errors() -> Generator[None]:
    try:
        yield
    except Exception as error:
        # Without its cause, whose message Temporal would store too.
        raise temporal_error(error) from None


def temporal_error(error: Exception) -> ApplicationError:
    match error:
        case StalePlan():
            return ApplicationError(
                str(error),
                type=STALE_PLAN,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            )
        case SummarizerRejected():
            return ApplicationError(str(error), type=SUMMARIZER_REJECTED, non_retryable=True)
        case SummarizerUnavailable():
            return ApplicationError(
                str(error),
                type=SUMMARIZER_UNAVAILABLE,
                next_retry_delay=_delay(error.retry_after),
                category=ApplicationErrorCategory.BENIGN,
            )
        case UnknownBranch():
            return ApplicationError(str(error), type="UnknownBranch", non_retryable=True)
        case DurableContextError():
            return ApplicationError(str(error), type=type(error).__name__)
        case _:
            name = type(error).__name__
            return ApplicationError(_code_of(error) or name, type=name)


def _delay(seconds: float | None) -> timedelta | None:
    return None if seconds is None else min(timedelta(seconds=max(seconds, 0.1)), LONGEST_WAIT)


def _code_of(error: Exception) -> str | None:
    """A database error's SQLSTATE: its message may quote data."""
    code = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} (SQLSTATE {code})" if code else None
