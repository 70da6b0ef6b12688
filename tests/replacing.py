"""Nodes replaced by others, as a rebuild leaves them behind: for tests of what comes after it."""

from uuid import UUID

import asyncpg

from durable_context import Branch

_BEGIN = """
update durable_context.branches set publication = publication + 1
where branch_uuid = $1 returning checkpoint_turn
"""
_SUPERSEDE = """
update durable_context.summaries set state = 'superseded'
where branch_uuid = $1 and level = $2 and from_turn = $3 and state = 'current' returning summary_id
"""
_REPLACE = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision, state, headline,
    text, token_count, input_tokens, covered_tokens, made_by
)
select tenant, branch_uuid, level, from_turn, to_turn, $2, input_hash, 1, 'current', $3, $3,
    token_count, input_tokens, covered_tokens, $2
from durable_context.summaries where summary_id = $1 returning summary_id
"""
_NEWEST = """
update durable_context.checkpoints set state = 'superseded'
where branch_uuid = $1 and turn_no = $2 and state = 'current' and $3 = any(frontier)
returning checkpoint_id
"""
_REVISED = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, parent_id, frontier, leaf_count, sections, ledger, text,
    token_count, token_usage, artifact_handles, revision
)
select tenant, branch_uuid, turn_no, parent_id, array_replace(frontier, $2, $3), leaf_count,
    replace(sections::text, $2::text, $3::text)::json, ledger, text, token_count,
    token_usage, artifact_handles, revision + 1
from durable_context.checkpoints where checkpoint_id = $1
"""


async def replace_node(
    connection: "asyncpg.Connection[asyncpg.Record]",
    branch: Branch,
    from_turn: int,
    text: str,
    level: int = 0,
) -> UUID:
    """The id of the node that stands there instead. Of the checkpoint the text stays."""
    async with connection.transaction():
        turn = await connection.fetchval(_BEGIN, branch.branch_uuid)
        old = await connection.fetchval(_SUPERSEDE, branch.branch_uuid, level, from_turn)
        new = await connection.fetchval(_REPLACE, old, f"rebuilt: {text}"[:40], text)
        revised = await connection.fetchval(_NEWEST, branch.branch_uuid, turn, old)
        if revised is not None:
            await connection.execute(_REVISED, revised, old, new)
    return new
