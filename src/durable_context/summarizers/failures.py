"""What a failed call of a model means: whether trying again helps, when, and why it failed.

No message holds what was said, though providers quote it: status and code say enough.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from pydantic_ai import exceptions

from durable_context.errors import (
    InputTooLong,
    InvalidDraft,
    SummarizerError,
    SummarizerRejected,
    SummarizerUnavailable,
)

LONGEST_RETRY_AFTER: Final = 900.0
"""Seconds. Who asks for more is asked again after that."""

_PASSING: Final = (408, 409, 425, 429)
_CODE: Final = re.compile(r"[\w.-]{1,60}")
_OVERLONG: Final = re.compile(
    r"context[ _](?:length|window)|maximum context|too many tokens|prompt is too long"
    r"|input (?:is|was) too long|exceeds? the (?:model|max)",
    re.IGNORECASE,
)


def failure(error: Exception, model: str, timeout: float) -> SummarizerError:
    """The error to raise for one of pydantic-ai or of a client beneath it."""
    match error:
        case TimeoutError() | exceptions.ModelTimeoutError() | exceptions.ModelRequestTimeout():
            return SummarizerUnavailable(f"{model!r} did not answer within {timeout:g} s")
        case exceptions.ModelContextWindowExceededError():
            return InputTooLong(f"the input does not fit the window of {model!r}")
        case exceptions.ModelQuotaExceededError():
            return SummarizerRejected(f"the quota of {model!r} is used up{_code(error)}")
        case exceptions.ModelHTTPError():
            return _of_status(error, model)
        case exceptions.ModelAPIError():
            return SummarizerUnavailable(f"{model!r} could not be reached{_code(error)}")
        case exceptions.ContentFilterError():
            return SummarizerRejected(f"{model!r} refused the input")
        case exceptions.OutputTokenLimitExceeded():
            return InvalidDraft(f"{model!r} was cut by its output limit")
        case exceptions.UserError():
            return SummarizerRejected(f"{model!r} cannot be asked: {type(error).__name__}")
        case OSError():
            return SummarizerUnavailable(f"{model!r} could not be reached: {type(error).__name__}")
        case _:
            # Answers that no client expects, such as none at all, end in plain LookupErrors.
            return InvalidDraft(f"the answer of {model!r} is unusable: {type(error).__name__}")


def error_kind(error: SummarizerError) -> str:
    """Of what `failure` made it from: the status of the answer, or the type of the error."""
    cause = error.__cause__
    if isinstance(cause, exceptions.ModelHTTPError):
        return str(cause.status_code)
    return type(cause or error).__name__


def retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds, from `retry-after-ms` or from `retry-after` in seconds or as a date."""
    found = {name.lower(): value.strip() for name, value in (headers or {}).items()}
    seconds = _number(found.get("retry-after-ms"), 1000) or _number(found.get("retry-after"), 1)
    if seconds is None:
        seconds = _until(found.get("retry-after"))
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _of_status(error: exceptions.ModelHTTPError, model: str) -> SummarizerError:
    status = error.status_code
    message = f"{model!r} answered {status}{_code(error)}"
    if status in _PASSING or status >= 500:
        return SummarizerUnavailable(message, retry_after(error.headers))
    if status == 413 or (status in (400, 422) and _OVERLONG.search(str(error.body))):
        return InputTooLong(f"the input does not fit the window of {model!r}")
    return SummarizerRejected(message)


def _code(error: Any) -> str:
    """The provider's own word for the error, if it is one."""
    code = getattr(error, "provider_error_code", None)
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _number(value: str | None, divisor: int) -> float | None:
    try:
        number = float(value or "") / divisor
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(date: str | None) -> float | None:
    try:
        moment = parsedate_to_datetime(date or "")
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()
