"""What a publication saves with each later call, and what of a provider's cache it breaks, in
tokens of the branch's encoding.
"""

from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from durable_context.database import Connection
from durable_context.models import Checkpoint
from durable_context.prompts.rendering import RenderedCheckpoint
from durable_context.tokens import TokenCounter


class Figures(NamedTuple):
    """`saved_tokens` are those that a prompt has fewer, from now on; negative where it has more.
    `broken_tokens` stood behind what the old checkpoint and the new one begin with alike, and are
    read anew once.
    """

    saved_tokens: int
    broken_tokens: int


def figures(
    previous: Checkpoint | None,
    new: RenderedCheckpoint,
    newly_covered_tokens: int,
    counter: TokenCounter,
) -> Figures:
    """`newly_covered_tokens`: of the turns, as they are stored, that only the new one covers; 0
    where nodes are replaced.
    """
    if previous is None:
        return Figures(newly_covered_tokens - new.token_count, 0)
    pairs = zip(previous.text, new.text, strict=False)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Figures(
        saved_tokens=previous.token_count + newly_covered_tokens - new.token_count,
        broken_tokens=counter.count(previous.text[alike:]),
    )


async def store_figures(
    connection: Connection, tenant: str, branch_uuid: UUID, compaction_id: UUID, made: Figures
) -> None:
    """Note them on the compaction, in the transaction that publishes, once the branch is at its
    new checkpoint: turns behind that are read anew, too.
    """
    await connection.execute(
        "update durable_context.compactions c set head_turn = b.head_turn, saved_tokens = $4,"
        " broken_tokens = $5 + b.head_tokens - b.checkpoint_tokens"
        " from durable_context.branches b where c.tenant = $1 and c.branch_uuid = $2"
        " and c.compaction_id = $3 and b.tenant = $1 and b.branch_uuid = $2",
        tenant,
        branch_uuid,
        compaction_id,
        *made,
    )
