"""What a revert reports."""

from uuid import UUID

from durable_context.models import Value


class Reversal(Value):
    """What a revert does, or would: the newest checkpoint's turn moves from `from_turn` to
    `to_turn`, 0 for none. `checkpoint_id` is the one that is the newest then, or the one that a
    copy is made of. `restored`: nodes that were replaced since, and are published anew. Without
    `changes` the branch stands there already.
    """

    from_turn: int
    to_turn: int
    checkpoint_id: UUID | None
    nodes_rejected: int = 0
    drafts_rejected: int = 0
    checkpoints_rejected: int = 0
    restored: int = 0
    compactions_failed: int = 0
    changes: bool = True
