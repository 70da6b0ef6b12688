"""What a run answers with: the messages, the files, and what was done to which messages and why."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import SkipValidation

from durable_context.models import Value
from durable_context.offload.messages import Sized, positions_of, tokens_of
from durable_context.offload.stores import StoredFile

Step = Literal["compact", "compress"]
Done = Literal["compacted", "compressed", "kept"]
Reason = Literal[
    "over_threshold",
    "under_threshold",
    "nothing_to_replace",
    "recent",
    "already_offloaded",
    "unanswered",
    "no_gain",
    "compaction_sufficed",
    "store_failed",
    "summarizer_failed",
]
FAILURES = ("store_failed", "summarizer_failed")


class Action(Value):
    """`messages` are positions in the list that was given, from 0. Tokens are theirs, before and
    after. `made_by` is the recipe of the summarizer, `error` what went wrong.
    """

    step: Step
    done: Done
    reason: Reason
    messages: tuple[int, ...]
    tokens_before: int
    tokens_after: int
    reference: str | None = None
    made_by: str | None = None
    error: str | None = None


class OffloadResult(Value):
    """`messages` as they go on; those that were given are as they were. `files` holds what this
    run stored, or found stored by an earlier one. Tokens count the whole list.
    """

    messages: tuple[SkipValidation[dict[str, Any]], ...]
    files: tuple[StoredFile, ...]
    tokens_before: int
    tokens_after: int
    chat_id: str
    actions: tuple[Action, ...]
    changed: bool

    @property
    def failures(self) -> tuple[Action, ...]:
        """What could not be stored or summarized, and stayed as it was."""
        return tuple(action for action in self.actions if action.reason in FAILURES)


def kept(
    step: Step,
    messages: Sequence[Sized],
    reason: Reason,
    *,
    made_by: str | None = None,
    error: str | None = None,
) -> Action:
    """Messages that stay as they are."""
    tokens = tokens_of(messages)
    return Action(
        step=step,
        done="kept",
        reason=reason,
        messages=positions_of(messages),
        tokens_before=tokens,
        tokens_after=tokens,
        made_by=made_by,
        error=error,
    )
