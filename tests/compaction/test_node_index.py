"""What leaves and the nodes above them are found by, and the statistics that ranking reads."""

import asyncio
import struct
from datetime import UTC, datetime
from typing import Any, TypeAlias

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.node_index import add_nodes, unindexed
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.test_compactor import Steps
from tests.replacing import replace_node
from tests.turns import chat, exchange, numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
SAID_AT = datetime(2024, 5, 7, 12, tzinfo=UTC)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def test_a_term_of_a_leaf_says_which_of_its_messages_hold_it(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    said = {2: chat("A klaxon, please.", "Noted."), 5: chat("Well?", "The klaxon and a klaxon.")}
    await _record(branch, 8, said)
    await Steps(pool, branch).all()
    [leaf] = await _documents(connection, branch)
    assert (leaf["from_turn"], leaf["to_turn"], leaf["level"]) == (1, 6, 0)
    assert leaf["turn_messages"] == [2] * 6
    assert len(leaf["message_lengths"]) == 12
    [klaxon] = await _postings(connection, branch, "klaxon")
    assert (_places(klaxon), klaxon["frequency"]) == ([3, 10], 3)
    [day] = await _postings(connection, branch, "=2024-05-07")
    assert (_places(day), day["frequency"]) == ([*range(1, 13)], 12)


async def test_what_only_the_summary_of_a_leaf_says_is_in_none_of_its_messages(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 8)
    await Steps(pool, branch).all()
    [left] = await _postings(connection, branch, "left")
    assert _places(left) == [*range(2, 13, 2)], "the summary says it, too"
    [user] = await _postings(connection, branch, "user")
    assert (user["places"], user["frequency"]) == (b"", 1)
    [leaf] = await _documents(connection, branch)
    unsaid = await connection.fetchval(
        "select sum(frequency) from durable_context.postings where places = ''"
    )
    assert leaf["length"] == sum(leaf["message_lengths"]) + unsaid
    assert {posting["length"] for posting in await _postings(connection, branch)} == {
        leaf["length"]
    }


async def test_leaves_and_the_leaves_of_a_term_are_counted(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    said = {turn: chat("A mango.", "Yes.") for turn in (1, 8, 9, 20)}
    await _record(branch, 28, said)
    assert await compact_all(pool, branch.branch_uuid) == 4
    leaves = [row for row in await _documents(connection, branch) if row["level"] == 0]
    assert [(leaf["to_turn"], leaf["nth"]) for leaf in leaves] == [
        (6, 1),
        (12, 2),
        (18, 3),
        (24, 4),
    ]
    lengths = [leaf["length"] for leaf in leaves]
    assert [leaf["total_length"] for leaf in leaves] == [sum(lengths[: n + 1]) for n in range(4)]
    mango = [row for row in await _postings(connection, branch, "mango") if row["level"] == 0]
    assert [(row["to_turn"], row["nth"]) for row in mango] == [(6, 1), (12, 2), (24, 3)]


async def test_nodes_that_were_missed_are_caught_up_on_as_if_each_had_come_in_its_time(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28, {turn: chat("A mango.", "Yes.") for turn in (1, 8, 20)})
    await compact_all(pool, branch.branch_uuid)
    documents = await _documents(connection, branch)
    postings = await _postings(connection, branch)
    for kept in (0, 6, 18):
        await _forget_after(connection, branch, kept)
        await add_nodes(pool, "default", branch.branch_uuid, 24)
        assert await _documents(connection, branch) == documents
        assert await _postings(connection, branch) == postings


async def test_what_is_indexed_is_passed_over(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    documents = await _documents(connection, branch)
    postings = await _postings(connection, branch)
    for turn in (6, 24):
        await add_nodes(pool, "default", branch.branch_uuid, turn)
    assert await _documents(connection, branch) == documents
    assert await _postings(connection, branch) == postings


async def test_a_node_above_the_leaves_is_found_by_its_own_text_only(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    [node] = [row for row in await _documents(connection, branch) if row["level"] == 1]
    assert (node["from_turn"], node["to_turn"]) == (1, 24)
    assert (node["nth"], node["total_length"], node["turn_messages"]) == (0, 0, [])
    own = await connection.fetch(
        "select u.lexeme, cardinality(u.positions) from durable_context.summaries s"
        " cross join unnest(to_tsvector('english', s.headline || ' ' || s.text)) u"
        " where s.level = 1 order by 1"
    )
    found = [row for row in await _postings(connection, branch) if row["level"] == 1]
    assert sorted((row["term"], row["frequency"]) for row in found) == [tuple(row) for row in own]
    assert {(row["nth"], row["places"]) for row in found} == {(0, b"")}
    assert node["length"] == sum(row["frequency"] for row in found)


async def test_messages_have_places_of_their_own_however_many_they_are(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    calls = [message for n in range(150) for message in exchange(f"c{n}", f"beacon{n} is lit")]
    await branch.record_turn([{"role": "user", "content": "Light all beacons."}, *calls])
    await _record(branch, 8)
    policy = CompactionPolicy(segment_turns=1)
    await compact_all(pool, branch.branch_uuid, policy)
    leaf = (await _documents(connection, branch))[0]
    assert leaf["turn_messages"] == [301] and len(leaf["message_lengths"]) == 301
    places: dict[str, Any] = {
        row["term"]: _places(row)
        for row in await _postings(connection, branch)
        if row["to_turn"] == 1 and row["level"] == 0
    }
    assert places["beacon0"] == [3]
    assert places["beacon126"] == [255] and places["beacon149"] == [301]


async def test_a_child_ranks_as_before_whatever_its_parent_indexes_after_the_fork(
    branch: Branch, pool: Pool
) -> None:
    await _record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    child = await branch.fork("child")
    before = await child.search("SHP-0003 SHP-0008 SHP-0014", limit=10)
    assert len(before) == 3
    assert before == await branch.search("SHP-0003 SHP-0008 SHP-0014", limit=10)
    await _record(branch, 24, start=15)
    await compact_all(pool, branch.branch_uuid)
    assert await child.search("SHP-0003 SHP-0008 SHP-0014", limit=10) == before
    scores = {hit.score for hit in await branch.search("SHP-0003 SHP-0008 SHP-0014", limit=10)}
    assert not scores & {hit.score for hit in before}


async def test_a_child_ranks_as_a_branch_of_its_own_with_the_same_turns(
    client: ContextClient, branch: Branch, pool: Pool
) -> None:
    whole = await client.open_branch("whole")
    await _record(whole, 28)
    await compact_all(pool, whole.branch_uuid)
    await _record(branch, 16)
    await compact_all(pool, branch.branch_uuid)
    child = await branch.fork("child")
    await _record(branch, 12, start=17)
    await compact_all(pool, branch.branch_uuid)
    await _record(child, 12, start=17)
    await compact_all(pool, child.branch_uuid)
    for query in ("Rotterdam SHP-0003", "order 1020", "2024-05-07 depot"):
        found = await child.search(query, limit=10)
        assert found == await whole.search(query, limit=10)
        assert found


async def test_a_leaf_that_was_replaced_is_found_by_what_it_says_now(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28, {turn: chat("A mango.", "Yes.") for turn in (1, 8, 9, 20)})
    await compact_all(pool, branch.branch_uuid)
    await replace_node(connection, branch, 7, "A heron and a mango.")
    await add_nodes(pool, "default", branch.branch_uuid, 24)
    documents = await _documents(connection, branch)
    [heron] = await _postings(connection, branch, "heron")
    assert (heron["to_turn"], heron["level"], heron["nth"], heron["places"]) == (12, 0, 1, b"")
    mango = [row for row in await _postings(connection, branch, "mango") if row["level"] == 0]
    assert [(row["to_turn"], row["nth"], row["frequency"]) for row in mango] == [
        (6, 1, mango[0]["frequency"]),
        (12, 2, 2),
        (24, 3, mango[2]["frequency"]),
    ]
    leaves = [row for row in documents if row["level"] == 0]
    assert [(row["to_turn"], row["nth"]) for row in leaves] == [(6, 1), (12, 2), (18, 3), (24, 4)]
    assert leaves[1]["total_length"] == leaves[0]["length"] + leaves[1]["length"]
    postings = await _postings(connection, branch)
    for table in ("indexed_documents", "postings"):
        await connection.execute(f"delete from durable_context.{table}")
    await connection.execute("update durable_context.branches set indexed_publication = -1")
    await add_nodes(pool, "default", branch.branch_uuid, 24)
    again = await _postings(connection, branch)
    # Leaves after it count terms that it had before, too: their weights hardly differ.
    assert [_without_number(row) for row in again] == [_without_number(row) for row in postings], (
        "as if it had been so from the first"
    )


async def test_a_node_above_the_leaves_that_was_replaced_keeps_nothing_of_what_it_was(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    node = await replace_node(connection, branch, 1, "A heron.", level=1)
    await add_nodes(pool, "default", branch.branch_uuid, 24)
    found = [row["term"] for row in await _postings(connection, branch) if row["level"] == 1]
    assert found == ["heron"]
    [document] = [row for row in await _documents(connection, branch) if row["level"] == 1]
    assert (document["summary_id"], document["length"]) == (node, 2)


async def test_more_nodes_than_a_step_takes_are_replaced_step_by_step(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 52)
    policy = CompactionPolicy(segment_turns=1, fan_out=16)
    assert await compact_all(pool, branch.branch_uuid, policy) == 50
    for turn in range(1, 51):
        await replace_node(connection, branch, turn, f"A heron at {turn}.")
    await asyncio.gather(*(add_nodes(pool, "default", branch.branch_uuid, 50) for _ in range(3)))
    herons = await _postings(connection, branch, "heron")
    assert [row["to_turn"] for row in herons] == list(range(1, 51))
    assert not await unindexed(pool, "default", branch.branch_uuid)


async def test_what_is_missing_in_the_index_or_is_there_as_it_was_is_noticed(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    assert not await unindexed(pool, "default", branch.branch_uuid)
    await _record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    fork = await branch.fork("fork")
    assert not await unindexed(pool, "default", branch.branch_uuid)
    await replace_node(connection, branch, 7, "A heron.")
    assert await unindexed(pool, "default", branch.branch_uuid)
    assert not await unindexed(pool, "default", fork.branch_uuid), "its parent's are not its own"
    assert not await unindexed(pool, "another tenant", branch.branch_uuid)
    await add_nodes(pool, "default", branch.branch_uuid, 24)
    assert not await unindexed(pool, "default", branch.branch_uuid)
    await _forget_after(connection, branch, 18)
    assert await unindexed(pool, "default", branch.branch_uuid)


async def test_a_document_that_does_not_say_what_it_was_made_from_is_made_anew(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await _record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    documents = await _documents(connection, branch)
    postings = await _postings(connection, branch)
    await connection.execute("update durable_context.indexed_documents set summary_id = null")
    await connection.execute("update durable_context.branches set indexed_publication = -1")
    await add_nodes(pool, "default", branch.branch_uuid, 24)
    assert await _documents(connection, branch) == documents
    assert await _postings(connection, branch) == postings


async def _record(
    branch: Branch, count: int, said: dict[int, list[Any]] | None = None, start: int = 1
) -> None:
    """So many turns, some of which say something else."""
    for turn in range(start, start + count):
        messages = (said or {}).get(turn) or numbered(turn)
        await branch.record_turn(messages, occurred_at=SAID_AT)


async def _documents(connection: Connection, branch: Branch) -> list[asyncpg.Record]:
    return await connection.fetch(
        "select * from durable_context.indexed_documents where branch_uuid = $1"
        " order by to_turn, level",
        branch.branch_uuid,
    )


async def _postings(
    connection: Connection, branch: Branch, term: str | None = None
) -> list[asyncpg.Record]:
    return await connection.fetch(
        "select * from durable_context.postings where branch_uuid = $1"
        " and term = coalesce($2, term) order by term, to_turn, level",
        branch.branch_uuid,
        term,
    )


async def _forget_after(connection: Connection, branch: Branch, turn: int) -> None:
    """As if nothing behind the turn had been indexed."""
    for table in ("indexed_documents", "postings"):
        await connection.execute(
            f"delete from durable_context.{table} where branch_uuid = $1 and to_turn > $2",
            branch.branch_uuid,
            turn,
        )
    await connection.execute("update durable_context.branches set indexed_publication = -1")


def _places(row: Any) -> list[int]:
    """Two bytes each."""
    return [place for (place,) in struct.iter_unpack(">h", row["places"])]


def _without_number(posting: asyncpg.Record) -> dict[str, Any]:
    return {name: value for name, value in posting.items() if name != "nth"}
