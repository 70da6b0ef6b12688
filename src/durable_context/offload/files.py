"""Originals as files: `<store_dir>/<folder of the chat>/<sha256>.txt` or `.json`.

A file appears under its name whole or not at all, and is never written over with another content:
the name says what it holds. An index lists them, one line of JSON each.
"""

import asyncio
import errno
import hashlib
import os
import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, cast

from durable_context.artifacts.contents import decoded
from durable_context.errors import (
    ArtifactDamaged,
    ArtifactNotFound,
    ArtifactStoreUnavailable,
    InvalidArgument,
)
from durable_context.offload.index import FileIndex
from durable_context.offload.regular_files import content_of
from durable_context.offload.stores import NewFile, StoredFile, folder_of
from durable_context.showing import shown

_NAME: Final = re.compile(r"([0-9a-f]{64})\.(?:txt|json)")


class FileOffloads:
    """The files of one chat. Nothing is made before the first `put`, and only its owner may read
    what is made. Raises InvalidArgument.
    """

    def __init__(self, store_dir: str | os.PathLike[str], chat_id: str) -> None:
        self._folder_name = folder_of(chat_id)
        self._folder = _directory(store_dir) / self._folder_name
        self._index = FileIndex(self._folder)

    def placeholder(self, new: NewFile) -> str:
        return f"{self._folder_name}/{new.file_name}"

    async def put(self, new: NewFile) -> StoredFile:
        """Raises OSError. What is damaged on disk is written anew."""
        return await asyncio.to_thread(self._put, new)

    async def load(self, reference: str) -> str:
        """Raises ArtifactNotFound, which says the same of other chats' files and of none at all,
        ArtifactDamaged, ArtifactStoreUnavailable.
        """
        return await asyncio.to_thread(self._load, reference)

    async def files(self) -> tuple[StoredFile, ...]:
        """As the index lists them, oldest first. Raises ArtifactStoreUnavailable."""
        try:
            return await asyncio.to_thread(self._index.files)
        except OSError as error:
            raise ArtifactStoreUnavailable(
                f"the index of the chat's files cannot be read: {error.strerror}"
            ) from error

    def _put(self, new: NewFile) -> StoredFile:
        self._make_folder()
        path = self._folder / new.file_name
        if not _is_intact(path, new):
            _write(path, new.data)
        return self._index.add(
            StoredFile(
                reference=self.placeholder(new),
                kind=new.kind,
                sha256=new.sha256,
                size=len(new.data),
                name=new.name,
                created_at=datetime.now(UTC),
            )
        )

    def _make_folder(self) -> None:
        if self._folder.is_symlink():
            raise OSError(errno.ELOOP, "the chat's folder is a link")
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_directory(self._folder.parent)

    def _load(self, reference: object) -> str:
        folder, _, name = reference.partition("/") if isinstance(reference, str) else ("", "", "")
        found = _NAME.fullmatch(name)
        if folder != self._folder_name or found is None:
            _raise_not_found(reference)
        try:
            data = content_of(self._folder / name)
        except (FileNotFoundError, NotADirectoryError):
            _raise_not_found(reference)
        except OSError as error:
            raise ArtifactStoreUnavailable(
                f"file {reference} cannot be read: {error.strerror}"
            ) from error
        if hashlib.sha256(data).hexdigest() != found[1]:
            raise ArtifactDamaged(f"file {reference} does not hold what was stored there")
        return decoded(data)


def _directory(store_dir: object) -> Path:
    """Absolute, so that it stays the same when the process goes elsewhere."""
    path: object = None
    if isinstance(store_dir, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str]", store_dir))
    if isinstance(path, str) and path and "\0" not in path:
        with suppress(RuntimeError, UnicodeEncodeError):  # ~nobody, a lone surrogate
            os.fsencode(path)
            return Path(path).expanduser().absolute()
    raise InvalidArgument(
        f"store_dir={shown(cast(object, store_dir))}; it must be the path of a directory"
    )


def _is_intact(path: Path, new: NewFile) -> bool:
    try:
        return path.stat().st_size == len(new.data) and content_of(path) == new.data
    except OSError:
        return False


def _write(path: Path, data: bytes) -> None:
    """Whoever does so at the same time writes the same bytes."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _raise_not_found(reference: object) -> NoReturn:
    raise ArtifactNotFound(f"the chat has no file {shown(reference, 120)}")
