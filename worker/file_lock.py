"""Exclusive locks between processes that the kernel releases when their holder dies."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncGenerator
from pathlib import Path

POLL_SECONDS = 0.2


class FileLock:
    """Held from construction to `release`; `BlockingIOError` when somebody else holds it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(self._descriptor)
            raise
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, str(os.getpid()).encode())

    def release(self) -> None:
        """The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)


def holder_of(path: Path) -> int | None:
    """The pid that the holder wrote into the file."""
    text = path.read_text()
    return int(text) if text.isdigit() else None


@contextlib.asynccontextmanager
async def file_lock(path: Path) -> AsyncGenerator[None]:
    """Wait for the lock as long as it takes."""
    while True:
        try:
            lock = FileLock(path)
        except BlockingIOError:
            await asyncio.sleep(POLL_SECONDS)
        else:
            break
    try:
        yield
    finally:
        lock.release()
