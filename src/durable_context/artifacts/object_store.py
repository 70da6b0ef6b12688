"""The object store of large contents: a local directory, memory, S3, Google Cloud or Azure, named
by a URL. An object appears under its key whole or not at all.
"""

import asyncio
import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import uuid4

from durable_context.errors import ArtifactDamaged, ArtifactStoreUnavailable, InvalidArgument

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Opened
    from obstore.store import RetryConfig

URL_VARIABLE: Final = "DURABLE_CONTEXT_ARTIFACT_URL"
ALLOWED: Final = (
    "file:///directory, memory:///, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix,"
    " without credentials, which are taken from the environment"
)

_SCHEMES: Final = ("file", "memory", "s3", "gs", "az")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{0,20})://", re.IGNORECASE)
# A request may bear a signature there.
_QUERY: Final = re.compile(r"\?[^\s)\"']*")
# A store that does not answer is an error within half a minute. Further options of the client
# would take the place of those in the environment, such as AWS_ALLOW_HTTP.
_RETRIES: "RetryConfig" = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=200), "max_backoff": timedelta(seconds=3)},
}


class Kept(NamedTuple):
    """An object as it is listed. `modified`: when it was written last."""

    key: str
    size: int
    modified: datetime


class ObjectStore:
    """Objects by key. The URL is checked at once; the store is opened when it is first needed."""

    def __init__(self, url: str | None = None) -> None:
        self._url = url if url is not None else os.environ.get(URL_VARIABLE) or _default_url()
        self._directory = _checked(self._url)
        self._opened: Opened | None = None
        self._opening = threading.Lock()

    async def put(self, key: str, data: bytes) -> None:
        """Writing a key again is harmless. Raises ArtifactStoreUnavailable."""
        with self._translated():
            await (await self._open()).put_async(key, data)
            if self._directory is not None:
                await asyncio.to_thread(_sync, self._directory, key)

    async def get(self, key: str, max_size: int) -> bytes:
        """Raises ArtifactDamaged if there is none, or a larger one, ArtifactStoreUnavailable."""
        with self._translated():
            store = await self._open()
            try:
                found = await store.get_async(key)
            except FileNotFoundError:
                raise ArtifactDamaged(
                    f"the artifact store {self._url} has no {key}; is it the one it was written to"
                    f" ({URL_VARIABLE})?"
                ) from None
            if found.meta["size"] > max_size:
                raise ArtifactDamaged(f"{key} in {self._url} is larger than what was put there")
            return bytes(await found.bytes_async())

    async def modified(self, key: str) -> datetime | None:
        """When it was written last; None if there is none. Raises ArtifactStoreUnavailable."""
        if self._is_empty():
            return None
        with self._translated():
            try:
                return (await (await self._open()).head_async(key))["last_modified"]
            except FileNotFoundError:
                return None

    async def delete(self, key: str, before: datetime) -> bool:
        """Whether it is gone: it stays if it was written since `before`.

        In a directory that holds at any moment. Elsewhere who writes it between the look and the
        deletion, which follow each other, loses it. Raises ArtifactStoreUnavailable.
        """
        modified = await self.modified(key)
        if modified is None or modified >= before:
            return modified is None
        with self._translated():
            if self._directory is not None:
                return await asyncio.to_thread(_delete_file, self._directory / key, before)
            await (await self._open()).delete_async(key)
        return True

    async def listed(self, prefix: str) -> list[Kept]:
        """All objects under a prefix. Raises ArtifactStoreUnavailable."""
        if self._is_empty():
            return []
        with self._translated():
            found = await _listed(await self._open(), prefix)
        return [Kept(each["path"], each["size"], each["last_modified"]) for each in found]

    def _is_empty(self) -> bool:
        """A directory that nobody has made: looking must not make it."""
        return self._directory is not None and not self._directory.exists()

    async def _open(self) -> "Opened":
        return self._opened or await asyncio.to_thread(self._open_once)

    def _open_once(self) -> "Opened":
        with self._opening:
            if self._opened is None:
                self._opened = self._made()
            return self._opened

    def _made(self) -> "Opened":
        # Most processes never meet a content that is large enough to pay for this import.
        from obstore.store import LocalStore, MemoryStore, from_url

        if self._directory is not None:
            _make_directory(self._directory)
            return LocalStore(self._directory)
        if self._url.startswith("memory:"):
            return MemoryStore()
        return from_url(self._url, retry_config=_RETRIES)

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if not _is_of_the_store(error):
                raise
            # Not chained: the store's own error holds the request, signatures and all.
            raise ArtifactStoreUnavailable(
                f"the artifact store {self._url} did not do its part: {_reason(error)}"
            ) from None


def _checked(url: str) -> Path | None:
    """The directory of a local store. Raises InvalidArgument, which quotes the scheme alone: what
    else is there may be a secret.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        raise InvalidArgument(f"the artifact store needs a URL: {ALLOWED}")
    if scheme[1] not in _SCHEMES:
        raise InvalidArgument(f"the artifact store's URL has {scheme[1]!r}; allowed are {ALLOWED}")
    parts = _split(url)
    if parts is None or not _is_complete(parts):
        raise InvalidArgument(
            f"the artifact store's {scheme[1]} URL cannot be used; allowed are {ALLOWED}"
        )
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _is_complete(parts: SplitResult) -> bool:
    if parts.query or parts.fragment or "@" in parts.netloc or "\0" in unquote(parts.path):
        return False
    if parts.scheme in ("file", "memory"):
        return not parts.netloc and (parts.scheme == "memory" or parts.path.strip("/") != "")
    return parts.netloc != ""


def _default_url() -> str:
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():
        data = Path.home() / ".local" / "share"
    return (data / "durable-context" / "artifacts").as_uri()


def _is_of_the_store(error: Exception) -> bool:
    from obstore.exceptions import BaseError

    return isinstance(error, BaseError | OSError | ValueError)


def _reason(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {_QUERY.sub('?…', first)[:600]}"


def _make_directory(directory: Path) -> None:
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        _sync_one(path.parent)


async def _listed(store: "Opened", prefix: str) -> "Sequence[ObjectMeta]":
    stream: Any = store.list(prefix)  # pyright: ignore[reportUnknownMemberType]
    return await stream.collect_async()


def _delete_file(path: Path, before: datetime) -> bool:
    """Moved aside first, so that one who writes the same key meanwhile writes another file."""
    aside = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return True
    is_old = aside.stat().st_mtime < before.timestamp()
    if not is_old:
        with suppress(FileExistsError):
            path.hardlink_to(aside)
    aside.unlink()
    return is_old


def _sync(directory: Path, key: str) -> None:
    """The file is renamed into place whole, but only this makes it outlive a loss of power, which
    the row that is about to point at it does.
    """
    path = directory / key
    while path != directory:
        _sync_one(path)
        path = path.parent
    _sync_one(directory)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
