"""Immutable states of a context, numbered 1, 2, 3 … in memory."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from durable_context.errors import CheckpointError
from durable_context.processors.copying import copied
from durable_context.showing import shown


class Checkpoint:
    """A context's state as it was. It holds deep copies, and each read gives new ones, but service
    handles are the context's own.

    Raises CheckpointError.
    """

    __slots__ = ("_metadata", "_token_usage", "_values", "created_at", "task_id", "version")

    def __init__(
        self,
        task_id: str,
        version: int,
        values: Mapping[str, Any],
        token_usage: Mapping[str, int],
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
    ) -> None:
        self.task_id = task_id
        self.version = version
        self._values = copied(dict(values))
        self._token_usage = dict(token_usage)
        self._metadata = copied(dict(metadata or {}))
        self.created_at = created_at or datetime.now(UTC)

    @property
    def values(self) -> dict[str, Any]:
        return copied(self._values)

    @property
    def token_usage(self) -> dict[str, int]:
        return dict(self._token_usage)

    @property
    def metadata(self) -> dict[str, Any]:
        return copied(self._metadata)

    def __repr__(self) -> str:
        return (
            f"Checkpoint(task_id={self.task_id!r}, version={self.version},"
            f" keys={len(self._values)})"
        )


class CheckpointStore:
    """The checkpoints of one task."""

    def __init__(self, task_id: str) -> None:
        if not isinstance(task_id, str) or not task_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckpointError("task_id is required and must be non-empty")
        self._task_id = task_id
        self._checkpoints: list[Checkpoint] = []

    @property
    def task_id(self) -> str:
        return self._task_id

    def save(
        self,
        values: Mapping[str, Any],
        token_usage: Mapping[str, int],
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """The next version."""
        checkpoint = Checkpoint(self._task_id, len(self) + 1, values, token_usage, metadata)
        self._checkpoints.append(checkpoint)
        return checkpoint

    def get(self, version: int) -> Checkpoint:
        """Raises CheckpointError."""
        if version not in self.list_versions() or isinstance(version, bool):
            available = f"1-{len(self)}" if self._checkpoints else "none"
            raise CheckpointError(
                f"Checkpoint version {shown(version)} not found (available: {available})"
            )
        return self._checkpoints[version - 1]

    @property
    def latest(self) -> Checkpoint | None:
        return self._checkpoints[-1] if self._checkpoints else None

    def list_versions(self) -> list[int]:
        return list(range(1, len(self) + 1))

    @property
    def version(self) -> int:
        """The newest, 0 if there is none."""
        return len(self)

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"CheckpointStore(task_id={self._task_id!r}, checkpoints={len(self)})"
