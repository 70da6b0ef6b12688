"""What the bounds of ranking keep and what they give up, on small lineages with tight bounds."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.database import TENANT, Database, compact, silence
from benchmarks.retrieval.lineage import lineage
from benchmarks.retrieval.lineage_rows import index_turns, store_tree, store_turns, stored
from benchmarks.retrieval.questions import Talk
from benchmarks.retrieval.speed_bounds import EXACT, best_of
from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.prompts.ranking_query import BOUNDS, Bounds
from durable_context.transcripts import TranscriptTurn
from tests.talks import market

TIGHT = Bounds(terms=8, whole=20, newest=5, candidates=6)
LEAVES = 40
OLD_LEAF = 3
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def turns_with(said: dict[int, str]) -> list[TranscriptTurn]:
    """Six turns to a leaf, the first of which says what is given for the leaf: all speak of boats
    or of kites, none of both.
    """
    turns: list[TranscriptTurn] = []
    for leaf in range(1, LEAVES + 1):
        usual = "Boats were out again." if leaf % 2 else "Kites were up again."
        texts = [said.get(leaf, usual), *[f"Nothing new, number {n}." for n in range(5)]]
        turns += [
            TranscriptTurn(
                messages=({"role": "user", "content": text},),
                occurred_at=BEGIN + timedelta(days=leaf),
            )
            for text in texts
        ]
    return turns


async def stored_turns(pool: Pool, turns: Sequence[TranscriptTurn]) -> Branch:
    talk = Talk("made up", tuple(turns), ())
    return await stored(Database(pool, pool), "made up", lineage([talk], len(turns)), silence)


async def found_leaves(pool: Pool, branch: Branch, text: str, bounds: Bounds) -> list[int]:
    """Numbers of the best three, of which a node above counts for none."""
    best = await best_of(pool, branch, text, bounds)
    return [node.to_turn // 6 for node in best if node.level == 0]


async def test_an_old_leaf_is_found_by_a_rare_term(pool: Pool) -> None:
    branch = await stored_turns(pool, turns_with({OLD_LEAF: "The heron stood by the boats."}))
    found = await found_leaves(pool, branch, "Did boats pass the heron?", TIGHT)
    assert found[0] == OLD_LEAF


async def test_a_rare_term_outweighs_newer_leaves_that_hold_all_frequent_ones(pool: Pool) -> None:
    said = {OLD_LEAF: "The heron stood there.", LEAVES - 2: "Boats and kites in one morning."}
    branch = await stored_turns(pool, turns_with(said))
    found = await found_leaves(pool, branch, "Boats, kites and the heron?", TIGHT)
    assert {OLD_LEAF, LEAVES - 2} <= set(found)


async def test_frequent_terms_together_are_found_among_the_newest_that_hold_one(pool: Pool) -> None:
    newest = LEAVES - TIGHT.newest
    branch = await stored_turns(pool, turns_with({newest: "Boats and kites in one morning."}))
    assert (await found_leaves(pool, branch, "Boats and kites?", TIGHT))[0] == newest


async def test_frequent_terms_together_in_an_old_leaf_are_given_up_for_the_bound(
    pool: Pool,
) -> None:
    branch = await stored_turns(
        pool, turns_with({OLD_LEAF: "Boats and kites in one morning, boats and kites."})
    )
    asked = "Boats and kites?"
    assert (await found_leaves(pool, branch, asked, EXACT))[0] == OLD_LEAF
    tighter = TIGHT._replace(whole=10)  # than either list
    assert OLD_LEAF not in await found_leaves(pool, branch, asked, tighter)
    wider = TIGHT._replace(whole=3 * LEAVES, candidates=24)
    assert (await found_leaves(pool, branch, asked, wider))[0] == OLD_LEAF


async def test_what_was_found_does_not_depend_on_what_a_fork_does_not_see(pool: Pool) -> None:
    branch = await stored_turns(pool, turns_with({OLD_LEAF: "The heron stood by the boats."}))
    fork = await branch.fork("early", at_turn=100)
    asked = "Did boats pass the heron?"
    assert (await found_leaves(pool, fork, asked, TIGHT))[0] == OLD_LEAF
    assert all(leaf <= 100 // 6 for leaf in await found_leaves(pool, fork, asked, BOUNDS))


@pytest.mark.parametrize("asked", ["Where was ORD-0007 mended?", "ORD-0003 or ORD-0009?"])
async def test_where_everything_fits_the_bounds_change_nothing(pool: Pool, asked: str) -> None:
    branch = await stored(Database(pool, pool), "all", lineage([market()], 70), silence)
    exact = await best_of(pool, branch, asked, EXACT)
    assert exact
    assert await best_of(pool, branch, asked, BOUNDS) == exact


async def test_the_bulk_index_is_the_one_that_compaction_makes(
    pool: Pool, client: ContextClient
) -> None:
    del client
    talk = market(80)
    recorded = await Database(pool, pool).client().open_branch("recorded")
    for turn in talk.turns:
        await recorded.record_turn(turn.messages, occurred_at=turn.occurred_at)
    await compact(pool, recorded, silence)
    bulk = await Database(pool, pool).client().open_branch("bulk")
    leaves = await store_turns(pool, bulk, talk.turns, silence)
    await store_tree(pool, bulk, leaves[:13], len(talk.turns))
    await index_turns(pool, bulk, 42)
    await index_turns(pool, bulk, len(talk.turns))

    assert await _spoken(pool, bulk) == await _spoken(pool, recorded)
    assert await _documents(pool, bulk) == await _documents(pool, recorded)


async def _spoken(pool: Pool, branch: Branch) -> list[tuple[object, ...]]:
    """Postings of what the messages of leaves say: summaries are others."""
    rows = await pool.fetch(
        "select term, to_turn, frequency, places from durable_context.postings"
        " where branch_uuid = $1 and level = 0 and places <> '' order by term, to_turn",
        branch.branch_uuid,
    )
    assert rows
    return [tuple(row) for row in rows]


async def _documents(pool: Pool, branch: Branch) -> list[tuple[object, ...]]:
    rows = await pool.fetch(
        "select to_turn, level, from_turn, nth, turn_messages, message_lengths"
        " from durable_context.indexed_documents"
        " where tenant = $1 and branch_uuid = $2 order by to_turn, level",
        TENANT,
        branch.branch_uuid,
    )
    return [tuple(row) for row in rows]
