"""Connecting to the database a command was given: errors say which, without its password."""

import os
import re

from durable_context import CompactionPolicy, ContextClient
from durable_context.client import DATABASE_URL
from durable_context.errors import DatabaseUnavailable, InvalidDatabaseUrl

_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(password=)[^&\s]*", re.IGNORECASE)
_LONGEST = 80
_UNREADABLE = (
    "the database URL cannot be read: it is postgresql://user:password@host:port/name, with"
    " special characters percent-encoded"
)


async def connect(
    database_url: str | None,
    *,
    temporal: str | None,
    tenant: str,
    policy: CompactionPolicy | None = None,
) -> ContextClient:
    """Raises DatabaseUnavailable, naming host and port."""
    url = database_url or os.environ.get(DATABASE_URL)
    if not url:
        raise DatabaseUnavailable("no database was named")
    if not url.startswith(_SCHEMES):
        raise DatabaseUnavailable(
            f"{_without_password(url)!r} is not a database URL, which begins with {_SCHEMES[0]}"
        )
    try:
        return await ContextClient.connect(url, temporal=temporal, tenant=tenant, policy=policy)
    except InvalidDatabaseUrl:
        raise DatabaseUnavailable(f"{_place(url)!r}: {_UNREADABLE}") from None
    except DatabaseUnavailable as error:
        detail = str(error).removeprefix("cannot connect to the database:").strip()
        raise DatabaseUnavailable(
            f"cannot connect to the database at {_place(url)}: {detail or 'no answer in time'}"
        ) from error


def _place(url: str) -> str:
    """Host and port."""
    return re.split(r"[/?#]", _without_password(url))[0] or "the local socket"


def _without_password(url: str) -> str:
    """What follows the scheme and the credentials."""
    masked = _PASSWORD.sub(r"\1…", url)
    scheme, _, rest = masked.rpartition("://")
    if "@" in masked:
        return masked.rpartition("@")[2][:_LONGEST]
    return (rest if scheme + "://" in _SCHEMES else masked)[:_LONGEST]
