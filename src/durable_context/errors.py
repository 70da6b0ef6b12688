"""Everything Durable Context raises on purpose. A docstring is the default message; facts are
attributes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from durable_context.summarizers import Attempt


class DurableContextError(Exception):
    """Durable Context could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((self.__doc__ or "").split()))


class InvalidArgument(DurableContextError, ValueError):
    """An argument is not one that is allowed."""


class InvalidId(InvalidArgument):
    """An id is not text that can be stored and looked up."""


class InvalidTurn(InvalidArgument):
    """The messages are not a turn."""


class IncompleteToolExchange(InvalidTurn):
    """Some tool calls have no result. `call_ids` names them."""

    def __init__(self, message: str, call_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.call_ids = call_ids


class TurnKeyConflict(DurableContextError):
    """The turn key was used before for other content."""

    def __init__(self, message: str, turn_key: str, turn_no: int) -> None:
        super().__init__(message)
        self.turn_key = turn_key
        self.turn_no = turn_no


class HeadConflict(DurableContextError):
    """The branch has moved on since the prompt was prepared."""

    def __init__(self, message: str, expected: int, actual: int) -> None:
        super().__init__(message)
        self.expected = expected
        self.actual = actual


class UnknownBranch(DurableContextError):
    """There is no such branch."""


class BranchConflict(DurableContextError):
    """The branch id is taken by another branch of the conversation."""


class ArtifactNotFound(DurableContextError):
    """The branch sees no artifact of this handle or name."""


class ArtifactTooLarge(InvalidArgument):
    """The content is larger than an artifact may be."""


class ArtifactDamaged(DurableContextError):
    """The stored content of an artifact is not what was put there."""


class ArtifactStoreUnavailable(DurableContextError):
    """The object store that holds large artifacts cannot be reached."""


class CheckpointNotFound(DurableContextError):
    """The branch has no checkpoint at this turn, or none of this id."""


class SummaryNotFound(DurableContextError):
    """The branch sees no summary of this id."""


class InvalidExport(InvalidArgument):
    """The stream is not an exported branch, or one of a version that is not known."""


class DatabaseUnavailable(DurableContextError):
    """The database cannot be reached. A turn that was not acknowledged may be recorded again."""


class InvalidDatabaseUrl(DatabaseUnavailable):
    """The database URL cannot be read; expected is postgresql://user:password@host:port/name, with
    special characters percent-encoded.
    """


class SchemaMissing(DurableContextError):
    """The database has no durable_context schema, or an older one: run `python -m
    durable_context.migrations`.
    """


class StalePlan(DurableContextError):
    """The branch was compacted by someone else since this compaction was planned."""


class CompactionUnavailable(DurableContextError):
    """Temporal could not be asked for a compaction. Nothing is lost: the turns are recorded."""


class CompactionTimeout(DurableContextError):
    """The compaction did not finish in time. It goes on in Temporal."""


class CompactionPaused(DurableContextError):
    """Compaction of the branch, or of its tenant, is paused until somebody resumes it."""


class CompactionFailed(DurableContextError):
    """The compaction failed. What was published before stays in use."""


class SummarizerError(DurableContextError):
    """A summarizer gave nothing that can be published. `attempts` holds its calls, failed ones
    too.
    """

    def __init__(self, message: str | None = None, attempts: "tuple[Attempt, ...]" = ()) -> None:
        super().__init__(message)
        self.attempts = attempts


class InvalidDraft(SummarizerError):
    """A summarizer returned something that must not be published."""


class SummarizerUnavailable(SummarizerError):
    """The model cannot answer now; trying again later can help. `retry_after` is in seconds, or
    None.
    """

    def __init__(
        self,
        message: str | None = None,
        retry_after: float | None = None,
        attempts: "tuple[Attempt, ...]" = (),
    ) -> None:
        super().__init__(message, attempts)
        self.retry_after = retry_after


class SummarizerRejected(SummarizerError):
    """The model refuses this request, and would again: bad key, unknown model, content filter."""


class InputTooLong(SummarizerError):
    """The summarizer's own context window is too small for this input: split it."""


class EmbedderError(DurableContextError):
    """An embedder gave no vectors. Retrieval goes on by words."""


class EmbedderUnavailable(EmbedderError):
    """The embedder cannot answer now; trying again later can help. `retry_after` is in seconds, or
    None.
    """

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EmbedderRejected(EmbedderError):
    """The embedder refuses, and would again: bad key, unknown model, vectors of another size.

    `of_input`: the texts may be why, so that others may do.
    """

    def __init__(self, message: str | None = None, *, of_input: bool = False) -> None:
        super().__init__(message)
        self.of_input = of_input


class ContextError(DurableContextError):
    """A context cannot do what was asked of it."""


class CheckpointError(ContextError):
    """There is no such checkpoint, or it is none."""


class ProcessorError(InvalidArgument):
    """A processor or a pipeline cannot be used like this."""
