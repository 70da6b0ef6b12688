"""Immutable states of a context, numbered 1, 2, 3 … and kept in memory."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from durable_context.errors import CheckpointError
from durable_context.processors import checkpoint_json
from durable_context.processors.copying import copied, same
from durable_context.processors.token_usage import check_usage
from durable_context.showing import shown

SCHEMA_VERSION: Final = 1


class Checkpoint:
    """A context's state as it was. It holds deep copies, and whoever reads one gets a new copy;
    only service handles are the context's own.

    Raises CheckpointError, or ContextError for values that cannot be copied.
    """

    __slots__ = ("_created_at", "_metadata", "_task_id", "_token_usage", "_values", "_version")

    def __init__(
        self,
        task_id: str,
        version: int,
        values: Mapping[str, Any],
        token_usage: Mapping[str, int],
        metadata: Mapping[str, Any] | None = None,
        created_at: datetime | None = None,
    ) -> None:
        _check_task_id(task_id)
        _check_version(version)
        check_usage(token_usage, CheckpointError)
        self._task_id = task_id
        self._version = version
        self._values = _copied_entries("values", values)
        self._token_usage = dict(token_usage)
        self._metadata = _copied_entries("metadata", {} if metadata is None else metadata)
        self._created_at = _checked_time(created_at)

    @property
    def task_id(self) -> str:
        return self._task_id

    @property
    def version(self) -> int:
        return self._version

    @property
    def values(self) -> dict[str, Any]:
        return copied(self._values)

    @property
    def token_usage(self) -> dict[str, int]:
        return dict(self._token_usage)

    @property
    def metadata(self) -> dict[str, Any]:
        return copied(self._metadata)

    @property
    def created_at(self) -> datetime:
        return self._created_at

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: service handles are left out.

        Raises CheckpointError for what is nested too deeply, and for keys that differ and would not
        when they come back, such as a member of an Enum and its value.
        """
        try:
            return {
                "schema_version": SCHEMA_VERSION,
                "task_id": self._task_id,
                "version": self._version,
                "values": checkpoint_json.to_json(self._values),
                "token_usage": dict(self._token_usage),
                "metadata": checkpoint_json.to_json(self._metadata),
                "created_at": self._created_at.isoformat(),
            }
        except RecursionError as error:
            raise CheckpointError("the values are nested too deeply to be written") from error

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Checkpoint":
        """What `to_dict` wrote. Without `schema_version` values are taken as they are.

        Only `task_id` and `version` are required. Raises CheckpointError.
        """
        if not isinstance(fields, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CheckpointError(f"{shown(fields)} is no checkpoint; it must be a dict")
        missing = [name for name in ("task_id", "version") if name not in fields]
        if missing:
            raise CheckpointError(f"the checkpoint has no {' and no '.join(missing)}")
        return cls(
            fields["task_id"],
            fields["version"],
            _read(fields, "values"),
            fields.get("token_usage", {}),
            _read(fields, "metadata"),
            _read_time(fields.get("created_at")),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def __repr__(self) -> str:
        return (
            f"Checkpoint(task_id={self._task_id!r}, version={self._version},"
            f" keys={len(self._values)})"
        )


class CheckpointStore:
    """The checkpoints of one task. Raises CheckpointError."""

    def __init__(self, task_id: str) -> None:
        _check_task_id(task_id)
        self._task_id = task_id
        self._checkpoints: list[Checkpoint] = []

    @property
    def task_id(self) -> str:
        return self._task_id

    @property
    def version(self) -> int:
        """The newest, 0 if there is none."""
        return len(self)

    @property
    def latest(self) -> Checkpoint | None:
        return self._checkpoints[-1] if self._checkpoints else None

    def save(
        self,
        values: Mapping[str, Any],
        token_usage: Mapping[str, int],
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> Checkpoint:
        """The next version. Raises CheckpointError."""
        checkpoint = Checkpoint(self._task_id, len(self) + 1, values, token_usage, metadata)
        self._checkpoints.append(checkpoint)
        return checkpoint

    def get(self, version: int) -> Checkpoint:
        """Raises CheckpointError."""
        if type(version) is not int or not 1 <= version <= len(self):
            available = f"1-{len(self)}" if self._checkpoints else "none"
            raise CheckpointError(
                f"Checkpoint version {shown(version)} not found (available: {available})"
            )
        return self._checkpoints[version - 1]

    def list_versions(self) -> list[int]:
        return list(range(1, len(self) + 1))

    def __len__(self) -> int:
        return len(self._checkpoints)

    def __bool__(self) -> bool:
        """A store without checkpoints is a store."""
        return True

    def __repr__(self) -> str:
        return f"CheckpointStore(task_id={self._task_id!r}, checkpoints={len(self)})"


def _check_task_id(task_id: object) -> None:
    if not isinstance(task_id, str) or not task_id:
        raise CheckpointError("task_id is required and must be non-empty")


def _check_version(version: object) -> None:
    if type(version) is not int or version < 1:
        raise CheckpointError(f"version={shown(version)}; it must be a whole number, from 1")


def _copied_entries(name: str, entries: object) -> dict[str, Any]:
    if not isinstance(entries, Mapping):
        raise CheckpointError(f"{name}={shown(entries)}; it must be a dict")
    return copied(dict(cast("Mapping[str, Any]", entries)))


def _checked_time(created_at: object) -> datetime:
    if created_at is None:
        return datetime.now(UTC)
    if not isinstance(created_at, datetime) or created_at.tzinfo is None:
        raise CheckpointError(f"created_at={shown(created_at)}; it must be a time with its zone")
    return created_at


def _read(fields: Mapping[str, Any], name: str) -> Any:
    written, schema_version = fields.get(name, {}), fields.get("schema_version")
    if schema_version is None:
        return written
    if type(schema_version) is not int or schema_version != SCHEMA_VERSION:
        raise CheckpointError(
            f"schema_version={shown(schema_version)} is not known; it must be {SCHEMA_VERSION}"
        )
    try:
        return checkpoint_json.from_json(written)
    except Exception as error:  # constructors of many types, and what somebody else wrote
        raise CheckpointError(f"the checkpoint's {name} cannot be read: {error}") from error


def _read_time(written: object) -> datetime | None:
    if written is None:
        return None
    try:
        return datetime.fromisoformat(cast(str, written))
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"created_at={shown(written)}; it must be a time in ISO 8601 form"
        ) from error
