"""What a rebuild would make anew, without Temporal. The statement filters on the tenant."""

from uuid import UUID

from durable_context.contracts.rebuild import RebuildRequest
from durable_context.database import Pool, acquired
from durable_context.models import Value

_FORESEE = """
select count(s.summary_id) as nodes, coalesce(sum(s.input_tokens), 0)::bigint as tokens,
    b.checkpoint_turn
from durable_context.branches b
left join durable_context.summaries s on s.tenant = b.tenant and s.branch_uuid = b.branch_uuid
    and s.state = 'current' and s.to_turn between $3 and b.checkpoint_turn
    and s.from_turn <= case when $4 = 0 then b.checkpoint_turn else $4 end
where b.tenant = $1 and b.branch_uuid = $2
group by b.checkpoint_turn
"""


class ForeseenRebuild(Value):
    """Of nodes of all levels. `tokens_to_read`: about, as many as was read to make what they are to
    replace.
    """

    branch_uuid: UUID
    nodes: int
    tokens_to_read: int
    checkpoint_turn: int


async def foresee_rebuild(pool: Pool, asked: RebuildRequest) -> ForeseenRebuild:
    async with acquired(pool) as connection:
        row = await connection.fetchrow(
            _FORESEE, asked.tenant, asked.branch_uuid, asked.from_turn, asked.to_turn
        )
    nodes, tokens, checkpoint_turn = row if row else (0, 0, 0)
    return ForeseenRebuild(
        branch_uuid=asked.branch_uuid,
        nodes=nodes,
        tokens_to_read=tokens,
        checkpoint_turn=checkpoint_turn,
    )
