"""The index of a chat's files: one line of JSON each, in the order they were stored."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from durable_context.offload.regular_files import opened
from durable_context.offload.stores import SUFFIXES, StoredFile

NAME: Final = "index.jsonl"


class FileIndex:
    """Blocks: for threads. Lines that nobody can read, such as one that a crash tore, are passed
    over, and of several for one file the first counts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self._lock = threading.Lock()
        self._forget()

    def files(self) -> tuple[StoredFile, ...]:
        """Raises OSError."""
        with self._lock:
            self._read()
            return tuple(self._files.values())

    def add(self, file: StoredFile) -> StoredFile:
        """The file as it is listed, which it is for good when this returns. Raises OSError."""
        with self._lock:
            self._read()
            if file.reference not in self._files:
                self._append(file.model_dump_json().encode())
                self._files[file.reference] = file
            return self._files[file.reference]

    def _forget(self) -> None:
        self._files: dict[str, StoredFile] = {}
        self._read_to = 0
        self._inode = 0

    def _read(self) -> None:
        """What was added since: other processes may add, too."""
        try:
            handle = opened(self._path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._forget()
            return
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if found.st_ino != self._inode or found.st_size < self._read_to:
                self._forget()
                self._inode = found.st_ino
            file.seek(self._read_to)
            whole = file.read().rpartition(b"\n")[0]
        for line in whole.split(b"\n") if whole else ():
            with suppress(ValidationError):
                self._list(StoredFile.model_validate_json(line))
        self._read_to += len(whole) + 1 if whole else 0

    def _list(self, read: StoredFile) -> None:
        """Unless the line says another name than such a file has."""
        if read.reference == f"{self._folder.name}/{read.sha256}{SUFFIXES[read.kind]}":
            self._files.setdefault(read.reference, read)

    def _append(self, line: bytes) -> None:
        """In one write, which begins a line of its own after a torn one."""
        handle = opened(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            end = os.lseek(handle, 0, os.SEEK_END)
            torn = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
            data = (b"\n" if torn else b"") + line + b"\n"
            if os.write(handle, data) != len(data):
                raise OSError("the index could not be written whole")
            os.fsync(handle)
        finally:
            os.close(handle)
