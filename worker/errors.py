"""What keeps a worker or an embedded stack from running, said to the one who can help."""

from pathlib import Path


class WorkerError(Exception):
    """A worker or an embedded stack cannot start or go on."""


class InvalidSettings(WorkerError):
    """A variable is missing or has a value that cannot be used."""


class TemporalUnreachable(WorkerError):
    """Nobody answers at the address of the Temporal server."""


class WorkerStopping(WorkerError):
    """The worker finishes what was begun, and takes nothing new."""


class ChildFailed(WorkerError):
    """A process of the stack ended by itself or did not come up in time."""

    def __init__(
        self, name: str, what: str, log: Path, log_tail: str, *, exit_code: int | None = None
    ) -> None:
        super().__init__(f"{name} {what}; the end of its log {str(log)!r} says:\n{log_tail}")
        self.name = name
        self.log = log
        self.exit_code = exit_code


class DataDirectoryInUse(WorkerError):
    """Another process owns the data directory."""

    def __init__(self, directory: Path, owner_pid: int | None) -> None:
        owner = "another process" if owner_pid is None else f"process {owner_pid}"
        super().__init__(
            f"the data directory {str(directory)!r} is in use by {owner}; "
            "stop it first or choose another data directory"
        )
        self.directory = directory
        self.owner_pid = owner_pid


class PostgresUnavailable(WorkerError):
    """The embedded PostgreSQL cannot be used on this machine."""


class TemporalNotFound(WorkerError):
    """No Temporal server was found and none could be installed."""


class BuildFailed(WorkerError):
    """A program could not be built with Go."""
