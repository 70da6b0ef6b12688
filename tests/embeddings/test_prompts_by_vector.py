"""A query's vector finds turns that share no word with it."""

from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.errors import InvalidArgument
from tests.embeddings.conftest import Grow
from tests.embeddings.embedding_server import vector_of
from tests.turns import numbered

WIDE = Budget(max_tokens=32_000)
MEANT = vector_of("\n".join(message["content"] for message in numbered(9)))
UNRELATED = "Qwerty asdfgh zxcvbn?"


async def _prepared(branch: Branch, asked: str, **options: Any) -> PreparedContext:
    prepared = await branch.prepare(asked, budget=WIDE, **options)
    assert isinstance(prepared, PreparedContext)
    return prepared


def _retrieved(prepared: PreparedContext) -> list[tuple[int | None, int | None]]:
    blocks = prepared.manifest.blocks
    return [(block.from_turn, block.to_turn) for block in blocks if block.kind == "retrieved"]


@pytest.fixture
async def grown(branch: Branch, grow: Grow, embeddings: LeafEmbeddings) -> Branch:
    await grow(branch, 26)
    await embeddings.add("default", branch.branch_uuid, 24)
    return branch


async def test_the_turn_nearest_to_the_vector_is_quoted(grown: Branch) -> None:
    assert _retrieved(await _prepared(grown, UNRELATED)) == []
    prepared = await _prepared(grown, UNRELATED, query_vector=MEANT)
    first, last = _retrieved(prepared)[0]
    assert first is not None and last is not None and first <= 9 <= last
    [text] = [m["content"] for m in prepared.messages if 'part="retrieved"' in m["content"]]
    assert "SHP-0009 left the depot" in text


async def test_words_and_vector_count_together(grown: Branch) -> None:
    prepared = await _prepared(grown, "Where is SHP-0020?", query_vector=MEANT)
    turns = {turn for first, last in _retrieved(prepared) for turn in range(first or 0, last or 0)}
    assert {9, 20} <= turns


async def test_small_talk_finds_nothing_whatever_its_vector(grown: Branch) -> None:
    assert _retrieved(await _prepared(grown, "thanks!", query_vector=MEANT)) == []


async def test_a_vector_that_is_near_to_nothing_finds_nothing(grown: Branch) -> None:
    opposite = [-number for number in MEANT]
    assert _retrieved(await _prepared(grown, UNRELATED, query_vector=opposite)) == []


async def test_a_prompt_by_vector_is_the_same_twice_and_for_a_fork(
    grown: Branch, grow: Grow
) -> None:
    here = await _prepared(grown, "And that?", query_vector=MEANT)
    again = await _prepared(grown, "And that?", query_vector=[3 * number for number in MEANT])
    assert again.model_dump_json() == here.model_dump_json()
    child = await grown.fork("child", at_turn=15)
    early = await _prepared(grown, "And that?", query_vector=MEANT, at_turn=15)
    assert (await _prepared(child, "And that?", query_vector=MEANT)).messages == early.messages
    assert all((last or 0) <= 15 for _, last in _retrieved(early))


async def test_a_vector_of_another_size_finds_nothing(grown: Branch) -> None:
    assert _retrieved(await _prepared(grown, UNRELATED, query_vector=[1.0, 2.0])) == []


async def test_without_stored_vectors_the_words_alone_count(client: ContextClient) -> None:
    branch = await client.open_branch("wordy")
    await branch.record_turn(numbered(1))
    with_vector = await _prepared(branch, "Where is SHP-0001?", query_vector=MEANT)
    assert with_vector.messages == (await _prepared(branch, "Where is SHP-0001?")).messages


@pytest.mark.parametrize("vector", [[], "0.1", [float("nan")], [0.0, 0.0], 5, [[1.0]]])
async def test_what_is_no_vector_is_refused(client: ContextClient, vector: Any) -> None:
    branch = await client.open_branch("c")
    with pytest.raises(InvalidArgument, match="query_vector"):
        await branch.prepare("Hello there", budget=WIDE, query_vector=vector)
