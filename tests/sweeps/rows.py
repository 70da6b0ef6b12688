"""Branches by the thousand, compacted up to their sixth turn, written by a few statements."""

import asyncpg

_BRANCHES = """
insert into durable_context.branches (
    tenant, conversation_id, branch_id, encoding, text_search, head_turn, head_tokens,
    checkpoint_turn, checkpoint_tokens, indexed_publication, last_turn_at
)
select 'default', 'bulk-' || n, 'main', 'o200k_base', 'english', 8, 800, 6, 600, 0,
    now() - interval '1 hour'
from generate_series(1, $1) n
"""
_SUMMARIES = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, state, headline, text,
    token_count, input_tokens, covered_tokens, made_by, published_in
)
select b.tenant, b.branch_uuid, 0, 1, 6, 'extractive/1', sha256('bulk'), 'current', 'Shipments',
    repeat('The shipment left the depot. ', 20), 120, 600, 600, 'extractive/1', 0
from durable_context.branches b
"""
_CHECKPOINTS = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, frontier, leaf_count, sections, ledger, text, token_count,
    token_usage
)
select s.tenant, s.branch_uuid, 6, array[s.summary_id], 1, '[]', '[]', s.text, 120, '{}'
from durable_context.summaries s
"""
_DOCUMENTS = """
insert into durable_context.indexed_documents (
    tenant, branch_uuid, to_turn, from_turn, length, nth, total_length, summary_id
)
select s.tenant, s.branch_uuid, 6, 1, 100, 1, 100, s.summary_id
from durable_context.summaries s
"""


async def add_branches(connection: "asyncpg.Connection[asyncpg.Record]", count: int) -> None:
    """Nothing of them is due: two raw turns, one leaf, its checkpoint, its entry in the index."""
    # The triggers of branches make their lineage. Those of the rest only check, and plan for the
    # empty tables that they find: as many rows would take minutes.
    await connection.execute("set enable_seqscan = off")
    await connection.execute(_BRANCHES, count, timeout=60)
    await connection.execute("analyze")
    await connection.execute("set session_replication_role = replica")
    for statement in (_SUMMARIES, _CHECKPOINTS, _DOCUMENTS):
        await connection.execute(statement, timeout=60)
    await connection.execute("set session_replication_role = origin")
    await connection.execute("analyze")
