"""What a publication saves with each later call, and what of a provider's cache it breaks, in
tokens of the branch's encoding.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from durable_context.database import Connection
from durable_context.models import Checkpoint
from durable_context.policy import CompactionPolicy
from durable_context.prompts.rendering import RenderedCheckpoint
from durable_context.tokens import TokenCounter

BALANCE = (
    "coalesce(c.saved_tokens * (coalesce(c.saved_until, b.head_turn) - c.head_turn)"
    " - c.broken_tokens, 0) - c.input_tokens - c.output_tokens"
)
"""Of a compaction c of a branch b."""

# $6 keep_raw_turns, $7 run_raw_tokens. Without a turn since the last publication there was no
# prompt that a provider could have in its cache.
_STORE = """
with tail as (
    select t.turn_no, t.raw_tokens, t.digest_tokens,
        sum(t.raw_tokens) over (order by t.turn_no desc) as to_head
    from durable_context.branches b
    join durable_context.visible_turns t on t.tenant = b.tenant and t.seen_by = b.branch_uuid
        and t.turn_no > b.checkpoint_turn and t.turn_no <= b.head_turn
    where b.tenant = $1 and b.branch_uuid = $2
),
broken as (
    select case when b.head_turn > all (
        select c.head_turn from durable_context.compactions c
        where c.tenant = $1 and c.branch_uuid = $2 and c.published_in < b.publication
    ) then $5::bigint + coalesce((
        select sum(case when t.turn_no > b.head_turn - $6::integer
            or t.turn_no >= b.open_run_turn and t.to_head <= $7::integer
            then t.raw_tokens else t.digest_tokens end) from tail t
    ), 0) else 0 end as tokens
    from durable_context.branches b where b.tenant = $1 and b.branch_uuid = $2
)
update durable_context.compactions c set head_turn = b.head_turn, published_in = b.publication,
    saved_tokens = case n.place when 1 then $4::bigint else 0 end,
    broken_tokens = case n.place when 1 then k.tokens else 0 end
from durable_context.branches b, broken k,
    unnest($3::uuid[]) with ordinality n (compaction_id, place)
where c.tenant = $1 and c.branch_uuid = $2 and c.compaction_id = n.compaction_id
    and b.tenant = $1 and b.branch_uuid = $2
"""


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
    connection: Connection,
    tenant: str,
    branch_uuid: UUID,
    compaction_ids: Sequence[UUID],
    made: Figures,
    policy: CompactionPolicy,
) -> None:
    """Note them, in the transaction that publishes, once the branch is at its new checkpoint: what
    prompts show behind that is read anew, too. Of compactions that are published together the first
    bears them.
    """
    await connection.execute(
        _STORE,
        tenant,
        branch_uuid,
        compaction_ids,
        *made,
        policy.keep_raw_turns,
        policy.run_raw_tokens,
    )


async def end_savings(
    connection: Connection, tenant: str, branch_uuid: UUID, publication: int
) -> None:
    """What was published after this is not shown any more, and saves nothing from now on. For the
    transaction that reverts.
    """
    await connection.execute(
        "update durable_context.compactions c set saved_until = b.head_turn"
        " from durable_context.branches b where c.tenant = $1 and c.branch_uuid = $2"
        " and c.published_in > $3 and c.saved_until is null"
        " and b.tenant = $1 and b.branch_uuid = $2",
        tenant,
        branch_uuid,
        publication,
    )
