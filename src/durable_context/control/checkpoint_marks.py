"""Where checkpoints of a branch stand. Every statement filters on the tenant."""

from datetime import datetime
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.models import State, Value

_NEWEST = """
select checkpoint_id, turn_no, revision, token_count, created_at, state from (
    (select checkpoint_id, turn_no, revision, token_count, created_at, 'current' as state
    from durable_context.visible_checkpoints where tenant = $1 and seen_by = $2
    order by turn_no desc limit $3)
    union all
    (select checkpoint_id, turn_no, revision, token_count, created_at, state
    from durable_context.checkpoints
    where tenant = $1 and branch_uuid = $2 and replaced_in is not null
    order by turn_no desc, revision desc limit $3)
) c order by turn_no desc, revision desc limit $3
"""


class CheckpointMark(Value):
    """A checkpoint as `diff` and `revert` take it."""

    checkpoint_id: UUID
    turn_no: int
    revision: int
    token_count: int
    created_at: datetime
    state: State


async def newest_checkpoint_marks(
    pool: Pool, tenant: str, branch_uuid: UUID, limit: int
) -> tuple[CheckpointMark, ...]:
    """By turn, then revision, newest first."""
    async with acquired(pool) as connection:
        rows = await connection.fetch(_NEWEST, tenant, branch_uuid, limit)
    return tuple(CheckpointMark.model_validate(dict(row)) for row in rows)
