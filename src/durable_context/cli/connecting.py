"""Connecting to the database a command was given: errors say which, without its password."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager

import typer

from durable_context import CompactionPolicy, ContextClient
from durable_context.cli.failures import BAD_INPUT, complain
from durable_context.client import DATABASE_URL
from durable_context.database import Pool, create_pool
from durable_context.errors import DatabaseUnavailable, InvalidArgument, InvalidDatabaseUrl
from durable_context.policy import policy_from_env

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
    """Raises DatabaseUnavailable, naming host and port. A policy in the environment that is none
    ends the command.
    """
    policy = policy or _policy()
    url = _url(database_url)
    with _naming(url):
        return await ContextClient.connect(url, temporal=temporal, tenant=tenant, policy=policy)


async def open_pool(database_url: str | None) -> Pool:
    """Without a client, for who looks at what a client needs. Raises DatabaseUnavailable."""
    url = _url(database_url)
    with _naming(url):
        return await create_pool(url, max_size=2)


def _url(database_url: str | None) -> str:
    url = database_url or os.environ.get(DATABASE_URL)
    if not url:
        raise DatabaseUnavailable("no database was named")
    if not url.startswith(_SCHEMES):
        raise DatabaseUnavailable(
            f"{_without_password(url)!r} is not a database URL, which begins with {_SCHEMES[0]}"
        )
    return url


@contextmanager
def _naming(url: str) -> Generator[None]:
    """Errors say which database, without its password."""
    try:
        yield
    except InvalidDatabaseUrl:
        raise DatabaseUnavailable(f"{_place(url)!r}: {_UNREADABLE}") from None
    except DatabaseUnavailable as error:
        detail = str(error).removeprefix("cannot connect to the database:").strip()
        raise DatabaseUnavailable(
            f"cannot connect to the database at {_place(url)}: {detail or 'no answer in time'}"
        ) from error


def _policy() -> CompactionPolicy:
    try:
        return policy_from_env(os.environ)
    except InvalidArgument as error:
        complain(str(error))
        raise typer.Exit(BAD_INPUT) from None


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
