"""The search by vector: exact within what a branch sees, and nothing where there are no vectors."""

from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest

from durable_context import Branch
from durable_context.database import Pool
from durable_context.embeddings.endpoint import OpenAIEmbedder
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.embeddings.query import SIMILAR_LEAVES, similar_leaves
from durable_context.embeddings.store import EmbeddingStore, Leaf
from durable_context.embeddings.vectors import checked_vector
from tests.compacting import compact_all
from tests.embeddings.conftest import Grow
from tests.embeddings.embedding_server import vector_of
from tests.model_server import ModelServer
from tests.turns import chat, numbered

SEARCH = "select * from " + similar_leaves(vector="$3", model="$4", up_to="$5", also="$6")


class Found(NamedTuple):
    branch_uuid: UUID
    from_turn: int
    to_turn: int
    turn_no: int
    similarity: float


class Search:
    """By a text, as a branch sees it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __call__(
        self,
        branch: Branch,
        text: str | list[float] | None,
        *,
        tenant: str = "default",
        model: str | None = None,
        up_to: int = 2**31 - 1,
        also: tuple[int, ...] = (),
    ) -> list[Found]:
        vector = vector_of(text) if isinstance(text, str) else text
        if vector is not None:
            vector = checked_vector(vector)
        rows = await self._pool.fetch(
            SEARCH, tenant, branch.branch_uuid, vector, model, up_to, list(also)
        )
        return [Found(*row) for row in rows]


@pytest.fixture
def search(pool: Pool) -> Search:
    return Search(pool)


async def test_the_leaf_of_the_turn_that_says_the_same_comes_first(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, search: Search
) -> None:
    await grow(branch, 26)
    await embeddings.add("default", branch.branch_uuid, 24)
    same = "\n".join(message["content"] for message in numbered(9))
    first, *others = await search(branch, same)
    assert first[:4] == (branch.branch_uuid, 7, 12, 9)
    assert first.similarity == pytest.approx(1, abs=1e-3)
    assert len(others) == 3
    found = [leaf.similarity for leaf in (first, *others)]
    assert found == sorted(found, reverse=True) and found[0] > found[1]


async def test_similarity_is_the_cosine_of_the_nearest_turn(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, search: Search
) -> None:
    await grow(branch, 14)
    await embeddings.add("default", branch.branch_uuid, 12)
    text = "the parcel SHP-0005 in Rotterdam"
    wanted = checked_vector(vector_of(text))
    said = ["\n".join(message["content"] for message in numbered(n)) for n in range(1, 13)]
    cosines = [
        sum(a * b for a, b in zip(wanted, checked_vector(vector_of(one)), strict=True))
        for one in said
    ]
    found = {leaf.to_turn: leaf for leaf in await search(branch, text)}
    for to_turn, own in ((6, cosines[:6]), (12, cosines[6:])):
        assert found[to_turn].similarity == pytest.approx(max(own), abs=1e-3)
        assert own[found[to_turn].turn_no - to_turn + 5] == pytest.approx(max(own), abs=1e-3)


async def test_sixteen_leaves_are_found_and_those_that_are_asked_for_besides(
    pool: Pool, branch: Branch, embeddings: LeafEmbeddings, search: Search
) -> None:
    for turn in range(1, 141):
        await branch.record_turn(chat(f"Fact {turn} of many", f"Noted as word{turn}."))
    await compact_all(pool, branch.branch_uuid)
    await embeddings.add("default", branch.branch_uuid, 138)
    best = await search(branch, "word133 word134")
    assert len(best) == SIMILAR_LEAVES < 23
    worst = next(n for n in range(6, 139, 6) if n not in {leaf.to_turn for leaf in best})
    more = await search(branch, "word133 word134", also=(worst, best[0].to_turn, 7, 140))
    assert more[:-1] == best
    assert more[-1].to_turn == worst


async def test_an_earlier_turn_sees_only_what_ended_by_then(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, search: Search
) -> None:
    await grow(branch, 20)
    await embeddings.add("default", branch.branch_uuid, 18)
    for up_to, seen in ((5, []), (6, [6]), (17, [6, 12]), (18, [6, 12, 18])):
        found = await search(branch, "shipment", up_to=up_to, also=(6, 12, 18))
        assert sorted(leaf.to_turn for leaf in found) == seen


async def test_a_fork_finds_what_its_parent_had_compacted_and_its_own(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, search: Search
) -> None:
    await grow(branch, 16)
    child = await branch.fork("child", at_turn=10)
    await grow(child, 14)
    for one in (branch, child):
        await embeddings.add("default", one.branch_uuid, 100)
    found = {(leaf.branch_uuid, leaf.to_turn) for leaf in await search(child, "shipment")}
    assert found == {(branch.branch_uuid, 6), (child.branch_uuid, 12)}
    found = {(leaf.branch_uuid, leaf.to_turn) for leaf in await search(branch, "shipment")}
    assert found == {(branch.branch_uuid, 6), (branch.branch_uuid, 12)}


async def test_vectors_of_two_models_are_never_compared(
    branch: Branch, grow: Grow, pool: Pool, server: ModelServer, search: Search
) -> None:
    models = [OpenAIEmbedder(name, base_url=server.base_url) for name in ("old", "new")]
    short = OpenAIEmbedder("short", base_url=server.base_url, dimensions=8)
    await grow(branch, 14)
    old, new, small = (LeafEmbeddings(pool, embedder) for embedder in (*models, short))
    await old.add("default", branch.branch_uuid, 6)
    await new.add("default", branch.branch_uuid, 12)
    await small.add("default", branch.branch_uuid, 6)
    for model, seen in (("old", [6]), ("new", [6, 12]), (None, [6, 12]), ("short@8", [])):
        found = await search(branch, "shipment", model=model, also=(6, 12))
        assert sorted(leaf.to_turn for leaf in found) == seen
    [one] = await search(branch, vector_of("shipment", 8))
    assert one.to_turn == 6
    assert await search(branch, [1.0, 2.0, 3.0]) == []


async def test_there_are_no_rows_without_a_vector_or_for_another_tenant(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, search: Search
) -> None:
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    assert await search(branch, None, also=(6,)) == []
    assert await search(branch, "shipment", tenant="another", also=(6,)) == []
    assert len(await search(branch, "shipment")) == 1


def _about(turn: int) -> list[float]:
    draw = Random(turn)
    return [draw.gauss() for _ in range(64)]


async def _long_branch(pool: Pool, branch: Branch, leaves: int, turns: int) -> None:
    """A leaf of one turn at each step up to that turn, about something of its own."""
    await pool.execute(
        "update durable_context.branches set head_turn = $2, checkpoint_turn = $2"
        " where branch_uuid = $1",
        branch.branch_uuid,
        turns,
    )
    store = EmbeddingStore(pool, "default", branch.branch_uuid, "small")
    for turn in range(turns // leaves, turns + 1, turns // leaves):
        await store.keep(Leaf(turn, turn), {turn: _about(turn)})


async def test_among_more_leaves_than_are_compared_exactly_the_nearest_is_found(
    pool: Pool, branch: Branch, search: Search
) -> None:
    await _long_branch(pool, branch, leaves=600, turns=600)
    for turn in (1, 299, 600):
        first, *_ = await search(branch, _about(turn))
        assert (first.to_turn, first.turn_no) == (turn, turn)
        assert first.similarity == pytest.approx(1, abs=1e-3)


async def test_what_is_older_than_the_bound_is_compared_when_it_is_asked_for(
    pool: Pool, branch: Branch, search: Search
) -> None:
    await _long_branch(pool, branch, leaves=3, turns=60_000)
    wanted = _about(20_000)
    for up_to, also, seen in (
        (44_999, (), [20_000, 40_000]),
        (45_000, (), [40_000]),
        (45_000, (20_000,), [20_000, 40_000]),
    ):
        found = await search(branch, wanted, up_to=up_to, also=also)
        assert sorted(leaf.to_turn for leaf in found) == seen


@pytest.mark.usefixtures("without_pgvector")
async def test_the_same_statement_finds_nothing_where_there_is_no_pgvector(
    branch: Branch, grow: Grow, search: Search
) -> None:
    await grow(branch, 8)
    assert await search(branch, "shipment", also=(6,)) == []
