"""What can go wrong around the processes a worker starts, each with the facts a user needs."""

from pathlib import Path


class EmbeddedStackError(Exception):
    """The embedded stack cannot start or go on."""


class ChildFailed(EmbeddedStackError):
    """A process of the stack ended by itself or did not come up in time."""

    def __init__(self, name: str, what: str, log: Path, log_tail: str) -> None:
        super().__init__(f"{name} {what}; the end of its log {str(log)!r} says:\n{log_tail}")
        self.name = name
        self.log = log


class DataDirectoryInUse(EmbeddedStackError):
    """Another process owns the data directory."""

    def __init__(self, directory: Path, owner_pid: int | None) -> None:
        owner = "another process" if owner_pid is None else f"process {owner_pid}"
        super().__init__(
            f"the data directory {str(directory)!r} is in use by {owner}; "
            "stop it first or choose another data directory"
        )
        self.directory = directory
        self.owner_pid = owner_pid


class PostgresUnavailable(EmbeddedStackError):
    """The embedded PostgreSQL cannot be used on this machine."""


class TemporalNotFound(EmbeddedStackError):
    """No Temporal server was found and none could be installed."""


class BuildFailed(EmbeddedStackError):
    """A program could not be built with Go."""
