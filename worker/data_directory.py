"""The folder an embedded stack keeps everything in, with one owner at a time."""

from pathlib import Path
from types import TracebackType
from typing import Self

from worker.errors import DataDirectoryInUse
from worker.file_lock import FileLock, holder_of


class DataDirectory:
    """`with DataDirectory(path) as directory:`; the kernel ends the ownership of a killed owner."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self._lock: FileLock | None = None

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def temporal(self) -> Path:
        return self.path / "temporal"

    @property
    def worker(self) -> Path:
        return self.path / "worker"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    def __enter__(self) -> Self:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.path / "lock"
        try:
            self._lock = FileLock(lock)
        except BlockingIOError:
            raise DataDirectoryInUse(self.path, holder_of(lock)) from None
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.release()
