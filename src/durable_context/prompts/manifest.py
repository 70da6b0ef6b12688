"""What a prompt is made of: its blocks, what gave way for the budget, and how it was counted."""

from typing import Literal
from uuid import UUID

from durable_context.calibration import WHOLE, in_model_tokens
from durable_context.models import Value
from durable_context.tokens import REPLY_OVERHEAD

BlockKind = Literal[
    "instructions",
    "checkpoint",
    "pinned",
    "digest",
    "ledger",
    "raw",
    "retrieved",
    "task",
    "pending",
    "user",
]
ReductionKind = Literal[
    "view",
    "raw_to_digest",
    "retrieved_dropped",
    "digests_joined",
    "node_to_headline",
    "ledger_cut",
    "headline_to_words",
    "headlines_joined",
]


class Block(Value):
    """One part of a prompt. Tokens include the overhead of the messages that carry it.

    `source_ids` are the checkpoint's or summaries' ids; a turn is its own source by number. Each
    pinned turn, with its pinned facts, is a block.
    """

    kind: BlockKind
    token_count: int
    from_turn: int | None = None
    to_turn: int | None = None
    source_ids: tuple[str, ...] = ()


class Reduction(Value):
    """Something that was shortened or left out to fit the budget."""

    kind: ReductionKind
    from_turn: int | None = None
    to_turn: int | None = None
    tokens_saved: int


class Manifest(Value):
    """What a prompt is made of, in order.

    The blocks' tokens and the 3 that prime the reply add up to `counted_tokens`, in the branch's
    `encoding`. Times `token_factor` they are the `model`'s; it is 1.0 where the counts are exact.
    `omitted` names what stands in a shorter form or not at all: views because of their size,
    reductions because of the budget. `head_turn` is the turn the prompt was made at. The next
    prompt begins with `stable_prefix_tokens` of this one, in the branch's encoding, until something
    is compacted, pinned or unpinned; where something was reduced, these are the instructions alone.
    `processors` are those of the pipeline it went through.
    """

    blocks: tuple[Block, ...]
    omitted: tuple[str, ...]
    reductions: tuple[Reduction, ...]
    stable_prefix_tokens: int
    branch_uuid: UUID
    head_turn: int
    encoding: str
    model: str | None = None
    token_factor: float = 1.0
    processors: tuple[str, ...] = ()

    @property
    def counted_tokens(self) -> int:
        """Of the prompt, in the branch's encoding."""
        return sum(block.token_count for block in self.blocks) + REPLY_OVERHEAD

    @property
    def token_count(self) -> int:
        """Of the prompt, as the model counts them."""
        return in_model_tokens(self.counted_tokens, round(self.token_factor * WHOLE))
