"""Search in all that a branch can see, and in nothing else."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from durable_context import CompactionPolicy, ContextClient
from durable_context.branch import Branch
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.history_query import BOUNDS, SEARCH
from durable_context.history_search import SearchHit
from tests.compacting import compact_all
from tests.turns import chat, exchange, numbered

Connection = "asyncpg.Connection[asyncpg.Record]"
REPORT = "depot,pallets\n" + "".join(
    f"D{n:04d},{n * 37 % 400}\n" if n != 700 else "Zwolle warehouse,9173 pallets on hold\n"
    for n in range(1500)
)

LONG_HISTORY = """
with leaves as (
    insert into durable_context.indexed_documents
        (tenant, branch_uuid, to_turn, from_turn, length, nth, total_length)
    select 'default', $1, 6 * n, 6 * n - 5, 30, n, 30 * n from generate_series(2, 3000) n
), compacted as (
    update durable_context.branches set head_turn = 18000, checkpoint_turn = 18000
    where branch_uuid = $1
)
insert into durable_context.postings (branch_uuid, term, to_turn, frequency, length, nth)
select $1, term, 6 * n, 3, 30, n
from generate_series(2, 3000) n cross join unnest('{shipment,depot,rotterdam}'::text[]) term
"""


async def record(branch: Branch, first: int, last: int) -> None:
    for n in range(first, last + 1):
        await branch.record_turn(numbered(n))


async def delete_index(connection: Connection, branch: UUID) -> None:
    """As if indexing had never run."""
    await connection.execute("delete from durable_context.postings where branch_uuid = $1", branch)
    await connection.execute(
        "delete from durable_context.indexed_documents where branch_uuid = $1", branch
    )


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


def ranges(hits: tuple[SearchHit, ...]) -> list[tuple[int, int]]:
    return [(hit.from_turn, hit.to_turn) for hit in hits]


async def test_compacted_turns_are_found_with_the_passages_that_match(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("c")
    await record(branch, 1, 20)
    assert await compact_all(pool, branch.branch_uuid) == 3
    (hit,) = await branch.search("SHP-0009")
    assert (hit.kind, hit.from_turn, hit.to_turn, hit.handle) == ("turns", 7, 12, None)
    (leaf,) = [s for s in await branch.summaries() if (s.level, s.from_turn) == (0, 7)]
    assert hit.headline == leaf.headline
    assert all(excerpt.startswith("[turn 9, ") for excerpt in hit.excerpts)
    assert "user: Where is shipment SHP-0009?" in hit.excerpts[0]
    assert "assistant: Shipment SHP-0009 left the depot" in hit.excerpts[1]


async def test_turns_that_are_not_compacted_are_found_one_by_one(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await record(branch, 1, 5)
    (hit,) = await branch.search("order 1004")
    assert (hit.from_turn, hit.to_turn) == (4, 4)
    assert hit.headline.startswith("Asked: Where is shipment SHP-0004?")
    await record(branch, 6, 15)
    await compact_all(pool, branch.branch_uuid)
    assert ranges(await branch.search("SHP-0014")) == [(14, 14)]
    assert set(ranges(await branch.search("SHP-0014 SHP-0002"))) == {(14, 14), (1, 6)}


async def test_turns_are_found_once_while_their_summary_is_not_indexed(
    client: ContextClient, pool: Pool, connection: Connection
):
    branch = await client.open_branch("c")
    await record(branch, 1, 8)
    await compact_all(pool, branch.branch_uuid)
    await delete_index(connection, branch.branch_uuid)
    assert ranges(await branch.search("SHP-0003")) == [(3, 3)]


async def test_an_artifact_is_found_by_its_content_with_the_line_that_matches(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("c")
    await branch.record_turn(
        [
            {"role": "user", "content": "Fetch the stock of all depots."},
            *exchange("a", REPORT, name="fetch_stock"),
            {"role": "assistant", "content": "I have it."},
        ]
    )
    await record(branch, 2, 8)
    await compact_all(pool, branch.branch_uuid)
    (artifact,) = await branch.artifacts()
    (hit,) = await branch.search("Zwolle warehouse")
    assert (hit.kind, hit.handle) == ("artifact", artifact.handle)
    assert (hit.from_turn, hit.to_turn) == (1, 1)
    (excerpt,) = hit.excerpts
    assert "Zwolle warehouse,9173 pallets on hold" in excerpt
    line_no = int(excerpt.split("]")[0].removeprefix("[line "))
    assert line_no <= 702 < line_no + 60


async def test_one_content_is_one_hit_that_names_its_newest_appearance(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("c")
    first = await branch.put_artifact(REPORT, name="stock.csv")
    await record(branch, 1, 8)
    second = await branch.put_artifact(REPORT, name="copy.csv")
    await compact_all(pool, branch.branch_uuid)
    hits = await branch.search("Zwolle warehouse")
    assert [hit.handle for hit in hits] == [second.handle] != [first.handle]


async def test_a_child_finds_what_was_before_its_fork_and_nothing_of_others_after_it(
    client: ContextClient, pool: Pool
):
    parent = await client.open_branch("c")
    await record(parent, 1, 10)
    await compact_all(pool, parent.branch_uuid)
    child = await parent.fork("child")
    sibling = await parent.fork("sibling")
    await parent.record_turn(chat("The parent bought a zeppelin.", "Yes, a zeppelin."))
    await sibling.record_turn(chat("The sibling bought a gondola.", "Yes, a gondola."))
    await child.record_turn(chat("The child bought a submarine.", "Yes, a submarine."))
    await sibling.put_artifact(REPORT, name="stock.csv")
    for branch in (parent, sibling):
        await record(branch, 12, 30)
        await compact_all(pool, branch.branch_uuid)
    assert ranges(await child.search("1003")) == [(1, 6)]
    assert ranges(await child.search("1009")) == [(9, 9)]
    assert ranges(await child.search("submarine")) == [(11, 11)]
    for words in ("zeppelin", "gondola", "1025", "Zwolle warehouse"):
        assert await child.search(words) == ()
    assert ranges(await parent.search("zeppelin")) == [(7, 12)]
    await record(child, 12, 18)
    await compact_all(pool, child.branch_uuid)
    assert ranges(await child.search("submarine")) == [(7, 12)]
    assert ranges(await child.search("1003")) == [(1, 6)]


async def test_an_artifact_that_is_indexed_after_the_fork_is_found_by_the_child(
    client: ContextClient, pool: Pool
):
    parent = await client.open_branch("c")
    await record(parent, 1, 3)
    artifact = await parent.put_artifact(REPORT, name="stock.csv")
    child = await parent.fork("child")
    early = await parent.fork("early", at_turn=2)
    assert await child.search("Zwolle warehouse") == ()
    await compact_all(pool, parent.branch_uuid)
    assert [hit.handle for hit in await child.search("Zwolle warehouse")] == [artifact.handle]
    assert await early.search("Zwolle warehouse") == ()


async def test_another_tenant_finds_nothing(client: ContextClient, make_client: Any):
    branch = await client.open_branch("c")
    await record(branch, 1, 3)
    other: ContextClient = await make_client(tenant="other")
    stranger = await other.open_branch("c")
    stranger.branch_uuid = branch.branch_uuid
    assert await stranger.search("SHP-0002") == ()


async def test_hits_come_best_first_and_always_in_the_same_order(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await record(branch, 1, 40)
    await compact_all(pool, branch.branch_uuid)
    hits = await branch.search("Rotterdam depot shipment", limit=10)
    assert len(hits) > 5
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for _ in range(3):
        assert await branch.search("Rotterdam depot shipment", limit=10) == hits
    assert await branch.search("Rotterdam depot shipment", limit=3) == hits[:3]


async def test_what_matches_a_common_word_only_is_left_out_beside_a_real_hit(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    await record(branch, 1, 12)
    assert ranges(await branch.search("shipment SHP-0005 order 1005")) == [(5, 5)]


async def test_an_artifact_is_a_hit_beside_turns_that_no_index_has_yet(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("c")
    artifact = await branch.put_artifact(REPORT, name="stock.csv")
    await compact_all(pool, branch.branch_uuid)
    await branch.record_turn(chat("What does Zwolle hold?", "Pallets."))
    await record(branch, 2, 5)
    hits = await branch.search("Zwolle pallets")
    assert {hit.handle for hit in hits} == {artifact.handle, None}


@pytest.mark.parametrize("compacted", [False, True])
async def test_text_that_has_no_spaces_is_found(client: ContextClient, pool: Pool, compacted: bool):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("我们把货物放在鹿特丹的仓库里。", "好的，今天就送去。"))
    await record(branch, 2, 8)
    if compacted:
        await compact_all(pool, branch.branch_uuid)
    (hit,) = await branch.search("鹿特丹的仓库在哪里？")
    assert hit.from_turn == 1
    assert "鹿特丹的仓库" in hit.excerpts[0]


async def test_an_identifier_is_found_before_the_words_it_is_made_of(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("The file is src/crane/lift.py, I think.", "Yes."))
    await branch.record_turn(chat("The crane, the lift: py or not, src or crane?", "Both."))
    await record(branch, 3, 6)
    assert ranges(await branch.search("src/crane/lift.py"))[0] == (1, 1)


async def test_nodes_above_the_leaves_are_no_hits(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await record(branch, 1, 40)
    await compact_all(pool, branch.branch_uuid)
    assert {node.level for node in await branch.summaries()} == {0, 1}
    hits = await branch.search("Where is the shipment?", limit=50)
    assert len(hits) > 6
    assert {hit.to_turn - hit.from_turn for hit in hits} == {0, 5}


async def test_small_talk_is_found_when_it_is_asked_for(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(chat("Hello, thanks for your help!", "You are welcome."))
    await record(branch, 2, 4)
    assert ranges(await branch.search("thanks")) == [(1, 1)]


async def test_a_common_word_of_a_long_history_is_not_read_whole(
    client: ContextClient, pool: Pool, connection: Connection
):
    branch = await client.open_branch("c")
    await record(branch, 1, 8)
    await compact_all(pool, branch.branch_uuid)
    await connection.execute(LONG_HISTORY, branch.branch_uuid)
    await connection.execute("vacuum analyze")
    (hit, *_) = await branch.search("shipment depot SHP-0002")
    assert (hit.from_turn, hit.to_turn) == (1, 6)
    async with client._resources.pool.acquire() as same_settings:
        statement = await same_settings.prepare(SEARCH)
        (explained,) = await statement.explain(
            *("default", branch.branch_uuid, "shipment depot Rotterdam", [], [], 5), analyze=True
        )
    read = [
        node["Actual Rows"] * node["Actual Loops"]
        for node in nodes_of(explained["Plan"])
        if node.get("Relation Name") == "postings"
    ]
    newest = 3 * BOUNDS.newest
    assert newest <= sum(read) < newest + 4 * BOUNDS.candidates


@pytest.mark.parametrize("compacted", [False, True])
async def test_no_excerpt_shows_a_secret_also_where_a_cut_hides_what_it_is(
    client: ContextClient, pool: Pool, compacted: bool
):
    branch = await client.open_branch("c")
    key = "\n".join("MIIEpAIBAAKCAQEA7bq" + "Qz9" * 15 for _ in range(60))
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{key}\n flamingo {key}\n-----END RSA PRIVATE KEY-----"
    padding = "nothing of note here " * 40
    await branch.record_turn(
        chat(f"{padding} my password: hunter2x99 flamingo {padding}", "I keep it.")
    )
    await branch.record_turn(
        [
            {"role": "user", "content": "Deploy."},
            *exchange("a", "done", command="deploy --token=abcd1234efgh5678 flamingo"),
            {"role": "assistant", "content": f"{padding}{pem} flamingo"},
        ]
    )
    await branch.put_artifact(f"{padding}\n" * 9 + f"{pem}\nflamingo\n" + padding, name="key")
    await record(branch, 3, 9)
    if compacted:
        await compact_all(pool, branch.branch_uuid)
    hits = await branch.search("flamingo password nothing")
    assert hits
    shown = "\n".join(text for hit in hits for text in (hit.headline, *hit.excerpts))
    assert "flamingo" in shown
    assert "[redacted: password]" in shown
    for secret in ("hunter2x99", "abcd1234efgh5678", "Qz9Qz9", "MIIEpAIB"):
        assert secret not in shown


@pytest.mark.parametrize("query", ["", "  \n", None, 7, b"SHP"])
async def test_a_query_that_is_no_text_is_refused(client: ContextClient, query: Any):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidArgument, match="it must be text that says what to look for"):
        await branch.search(query)


@pytest.mark.parametrize("limit", [0, -1, 51, True, 2.0, "5"])
async def test_a_limit_that_is_not_allowed_is_refused(client: ContextClient, limit: Any):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidArgument, match="allowed are 1 to 50"):
        await branch.search("depot", limit=limit)


@pytest.mark.parametrize(
    "query",
    [
        "the of and",
        "'; drop schema durable_context cascade; --",
        "shp & | ! <-> :* ( ) \\ ''' \"",
        "%s $1 {} \x00 \ud800 \u202e",
        "SHP-0002 " * 100_000,
        "仓库 склад 🚚",
    ],
)
async def test_a_query_is_words_whatever_it_holds(client: ContextClient, query: str):
    branch = await client.open_branch("c")
    await record(branch, 1, 3)
    hits = await branch.search(query)
    assert set(ranges(hits)) <= {(1, 1), (2, 2), (3, 3)}
    assert ranges(await branch.search("SHP-0002"))[0] == (2, 2)


async def test_search_writes_nothing(database_url: str, client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await record(branch, 1, 12)
    await compact_all(pool, branch.branch_uuid)
    url = f"{database_url}?default_transaction_read_only=on"
    async with await ContextClient.connect(url, temporal=None) as reader:
        found = await (await reader.find_branch("c")).search("SHP-0003 SHP-0011")
    assert ranges(found) == ranges(await branch.search("SHP-0003 SHP-0011"))
    assert len(found) == 2


async def test_policy_does_not_matter_to_what_is_found(make_client: Any, pool: Pool):
    quiet: ContextClient = await make_client(CompactionPolicy(retrieved_blocks=0))
    branch = await quiet.open_branch("c")
    await record(branch, 1, 12)
    await compact_all(pool, branch.branch_uuid)
    assert ranges(await branch.search("SHP-0003")) == [(1, 6)]
