"""Changes of a policy as they are written on a command line: `superseded_after=7d`."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pydantic import ValidationError

from durable_context.errors import InvalidArgument
from durable_context.retention.policy import RetentionPolicy

_AGE: Final = re.compile(r"(\d{1,9})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_NAMES: Final = ", ".join(RetentionPolicy.model_fields)


def changed_policy(policy: RetentionPolicy, changes: Sequence[str]) -> RetentionPolicy:
    """The policy with each NAME=VALUE instead. Raises InvalidArgument, which says what is
    allowed.
    """
    fields = dict(_parsed(change) for change in changes)
    try:
        return RetentionPolicy.model_validate({**dict(policy), **fields})
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidArgument(f"{first['loc'][0]}: {first['msg']}") from None


def _parsed(change: str) -> tuple[str, timedelta | int | None]:
    name, found, value = change.partition("=")
    if not found or name not in RetentionPolicy.model_fields:
        raise InvalidArgument(f"{change!r:.80}; allowed is NAME=VALUE, NAME one of {_NAMES}")
    if name.endswith("_after"):
        return name, _age(name, value)
    if value == "all" and RetentionPolicy.model_fields[name].default is None:
        return name, None
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        raise InvalidArgument(f"{name}={value!r:.40}; allowed are whole numbers, or all")
    return name, int(value)


def _age(name: str, value: str) -> timedelta | None:
    if value == "never":
        return None
    parts = _AGE.fullmatch(value)
    if parts is None:
        raise InvalidArgument(
            f"{name}={value!r:.40}; allowed are ages such as 90s, 30m, 12h and 7d, or never"
        )
    return timedelta(seconds=int(parts[1]) * _SECONDS[parts[2]])
