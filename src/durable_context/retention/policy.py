"""What a tenant keeps, and for how long."""

from datetime import timedelta

from pydantic import Field

from durable_context.models import Value

_NONE = timedelta(0)
_UNDER_WAY = timedelta(hours=1)
_LONGEST = timedelta(days=36_500)


class RetentionPolicy(Value):
    """Ages are how long something stays once nothing needs it; None: for ever.

    By default nothing that was recorded is ever deleted, only what compaction left behind:
    `conversations_after` and `conversations_kept` are None until a tenant sets them.
    """

    superseded_after: timedelta | None = Field(default=timedelta(days=30), ge=_NONE, le=_LONGEST)
    """Nodes and checkpoints that others replaced, since they were."""
    rejected_after: timedelta | None = Field(default=None, ge=_NONE, le=_LONGEST)
    """Nodes and checkpoints that a revert rejected, since it did. None: they stay for audit."""
    drafts_after: timedelta | None = Field(default=timedelta(days=7), ge=_UNDER_WAY, le=_LONGEST)
    """Summaries that were made and never published. An hour at least: a compaction under way
    needs its own.
    """
    summary_parts_after: timedelta | None = Field(
        default=timedelta(days=7), ge=_UNDER_WAY, le=_LONGEST
    )
    """Partial results for retries of a summarizer; an hour at least."""
    contents_after: timedelta | None = Field(default=timedelta(days=7), ge=_NONE, le=_LONGEST)
    """Contents that no artifact names, since they were stored, with their objects."""
    objects_after: timedelta | None = Field(default=None, ge=_UNDER_WAY, le=_LONGEST)
    """Objects of the object store that no content names, since they were written. For a store that
    this database alone uses: what another database keeps there is not known to it.
    """
    compactions_after: timedelta | None = Field(default=timedelta(days=90), ge=_NONE, le=_LONGEST)
    """Rows of finished compactions, beyond `compactions_kept`."""
    compactions_kept: int = Field(default=20, ge=1)
    """Newest rows that every branch keeps, however old."""
    checkpoints_kept: int | None = Field(default=None, ge=1)
    """Newest checkpoints that every branch keeps; those that forks begin with stay beside them."""
    prompt_parts_after: timedelta | None = Field(default=timedelta(days=7), ge=_NONE, le=_LONGEST)
    """Instructions and tools of prompts that no turn names, since they were stored."""
    conversations_after: timedelta | None = Field(default=None, ge=_NONE, le=_LONGEST)
    """Whole conversations, since the last turn of any branch; not those with a pin."""
    conversations_kept: int | None = Field(default=None, ge=0)
    """Newest conversations that the tenant keeps; those with a pin stay beside them."""
