"""What a failed request for vectors means. No message holds what was sent, though providers quote
it: status and code say enough.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

import openai

from durable_context.errors import EmbedderError, EmbedderRejected, EmbedderUnavailable

_PASSING: Final = (408, 409, 425, 429)
_OF_INPUT: Final = (400, 413, 422)
_USED_UP: Final = ("insufficient_quota", "billing_hard_limit_reached")
_CODE: Final = re.compile(r"[\w.-]{1,60}")


@contextmanager
def failures_of(model: str, timeout: float) -> Generator[None]:
    """Raise our own errors for those of the client beneath."""
    try:
        yield
    except Exception as error:
        raise _failure(error, model, timeout) from error


def _failure(error: Exception, model: str, timeout: float) -> EmbedderError:
    match error:
        case TimeoutError() | openai.APITimeoutError():
            return EmbedderUnavailable(f"{model!r} did not answer within {timeout:g} s")
        case openai.APIStatusError():
            return _of_status(error, model)
        case openai.APIConnectionError() | OSError():
            return EmbedderUnavailable(f"{model!r} could not be reached")
        case openai.OpenAIError() if type(error) is openai.OpenAIError:
            return EmbedderRejected(f"{model!r} has no API key: set OPENAI_API_KEY")
        case _:
            # Answers that the client does not expect end in plain LookupErrors.
            return EmbedderUnavailable(f"the answer of {model!r} is unusable: {_name(error)}")


def _of_status(error: openai.APIStatusError, model: str) -> EmbedderError:
    status, code = error.status_code, error.code
    said = f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
    message = f"{model!r} answered {status}{said}"
    if code not in _USED_UP and (status in _PASSING or status >= 500):
        return EmbedderUnavailable(message, _retry_after(error.response.headers))
    return EmbedderRejected(message, of_input=status in _OF_INPUT)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds. Who gives a date instead is asked again after the usual pause."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _name(error: Exception) -> str:
    return type(error).__name__
