"""What a fork finds of its parent, whatever the parent takes back and compacts otherwise."""

import asyncpg

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.test_compactor import record

SIX = CompactionPolicy(segment_turns=6, fan_out=4)
FOUR = SIX.model_copy(update={"segment_turns": 4})
TURNS = set(range(1, 13))


async def test_a_fork_finds_all_turns_when_its_parent_is_cut_otherwise(
    client: ContextClient, pool: Pool, connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    parent = await client.open_branch("conversation")
    await record(parent, 14)
    await compact_all(pool, parent.branch_uuid, SIX)
    fork = await parent.fork("fork")
    assert await _searched(fork) == await _retrieved(fork) == TURNS
    for policy in (FOUR, SIX, FOUR):
        await parent.revert(0)
        assert await _searched(fork) == await _retrieved(fork) == TURNS
        await compact_all(pool, parent.branch_uuid, policy)
        for branch in (fork, parent):
            assert await _searched(branch) == await _retrieved(branch) == TURNS
            assert (await branch.verify()).findings == ()
    kept = await connection.fetch(
        "select from_turn, to_turn, artifact_no from durable_context.indexed_documents"
        " where artifact_no < 0"
    )
    assert [tuple(row) for row in kept] == [(7, 12, -7)]
    assert await connection.fetchval(
        "select count(*) from durable_context.postings where artifact_no = -7"
    )


async def _searched(branch: Branch) -> set[int]:
    found: set[int] = set()
    for turn in TURNS:
        hits = await branch.search(f"SHP-{turn:04d}", limit=10)
        found |= {turn for hit in hits if hit.from_turn <= turn <= hit.to_turn}
    return found


async def _retrieved(branch: Branch) -> set[int]:
    found: set[int] = set()
    for turn in TURNS:
        asked = f"Where is SHP-{turn:04d}?"
        prepared = await branch.prepare(asked, budget=Budget(max_tokens=30_000))
        assert isinstance(prepared, PreparedContext)
        blocks = [one for one in prepared.manifest.blocks if one.kind == "retrieved"]
        found |= {turn for one in blocks if (one.from_turn or 0) <= turn <= (one.to_turn or 0)}
    return found
