"""Published leaves get vectors after the turn: each once, redacted, and where vectors are kept."""

from uuid import UUID

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import IndexRequest
from durable_context.database import Pool
from durable_context.embeddings.endpoint import OpenAIEmbedder
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.migrations import migrate
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.compacting import compact_all
from tests.embeddings.conftest import LEAVES, TURNS, Grow
from tests.embeddings.embedding_server import DIMENSIONS, texts_sent
from tests.events import Connection
from tests.model_server import ModelServer
from tests.turns import chat, exchange


async def test_each_turn_of_each_leaf_gets_a_vector_once(
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
) -> None:
    await grow(branch, 14)
    for _ in range(2):
        await embeddings.add("default", branch.branch_uuid, 12)
    assert await connection.fetch(TURNS) == [((n + 5) // 6 * 6, n) for n in range(1, 13)]
    assert await connection.fetch(LEAVES) == [(1, 6, DIMENSIONS), (7, 12, DIMENSIONS)]
    assert len(texts_sent(server.requests)) == 12
    [text] = [text for text in texts_sent(server.requests) if "SHP-0003" in text]
    assert text.startswith("Where is shipment SHP-0003?") and "left the depot" in text


async def test_the_newest_leaf_comes_first_and_later_ones_wait_for_their_turn(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, server: ModelServer
) -> None:
    await grow(branch, 20)
    await embeddings.add("default", branch.branch_uuid, 12)
    firsts = [request.body["input"][0] for request in server.requests]
    assert ["SHP-0007" in firsts[0], "SHP-0001" in firsts[1], len(firsts)] == [True, True, 2]


async def test_indexing_embeds_where_there_is_an_embedder(
    branch: Branch, grow: Grow, pool: Pool, embedder: OpenAIEmbedder, connection: Connection
) -> None:
    await grow(branch, 8)
    compactor = Compactor(pool, ExtractiveSummarizer(), embedder=embedder)
    request = IndexRequest(tenant="default", branch_uuid=branch.branch_uuid, from_turn=1, to_turn=6)
    await compactor.index(request)
    assert len(await connection.fetch(TURNS)) == 6


async def test_no_secret_is_sent_to_the_endpoint(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, server: ModelServer
) -> None:
    await branch.record_turn(chat("The key is sk-proj-abcdefghijklmnop1234567890ABCDEF.", "Noted."))
    await branch.record_turn(exchange("a", "password: hunter2-hunter2"))
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    sent = "\n".join(texts_sent(server.requests))
    assert "[redacted: api key]" in sent
    assert "abcdefgh" not in sent and "hunter2" not in sent


async def test_another_size_of_the_same_model_is_another_model(
    branch: Branch, grow: Grow, pool: Pool, server: ModelServer, connection: Connection
) -> None:
    await grow(branch, 8)
    for dimensions in (None, 8):
        embedder = OpenAIEmbedder("small", base_url=server.base_url, dimensions=dimensions)
        await LeafEmbeddings(pool, embedder).add("default", branch.branch_uuid, 6)
    assert await connection.fetch(
        "select model, dimensions from durable_context.leaf_signatures order by 1"
    ) == [("small", DIMENSIONS), ("small@8", 8)]


async def test_a_fork_embeds_its_own_leaves_alone(
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
) -> None:
    await grow(branch, 8)
    child = await branch.fork("child", at_turn=8)
    await grow(child, 14)
    await embeddings.add("default", child.branch_uuid, 12)
    assert await connection.fetch(LEAVES) == [(7, 12, DIMENSIONS)]
    assert len(texts_sent(server.requests)) == 6


@pytest.mark.usefixtures("without_pgvector")
async def test_without_pgvector_nothing_is_embedded_and_one_line_says_so(
    database_url: str,
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await grow(branch, 8)
    for _ in range(2):
        await embeddings.add("default", branch.branch_uuid, 6)
    assert server.count == 0
    [line] = caplog.messages
    assert line.startswith("nothing is embedded: the database has no pgvector")

    await migrate(database_url)
    await embeddings.add("default", branch.branch_uuid, 6)
    assert len(await connection.fetch(TURNS)) == 6


async def test_vectors_are_immutable(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, connection: Connection
) -> None:
    await grow(branch, 8)
    await embeddings.add("default", branch.branch_uuid, 6)
    for table in ("turn_embeddings", "leaf_signatures"):
        with pytest.raises(asyncpg.PostgresError, match="immutable"):
            await connection.execute(f"update durable_context.{table} set to_turn = to_turn")


async def test_a_branch_of_another_tenant_is_not_found(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, server: ModelServer
) -> None:
    await grow(branch, 8)
    await embeddings.add("another", branch.branch_uuid, 6)
    await embeddings.add("default", UUID(int=0), 6)
    assert server.count == 0


async def test_turns_that_a_revert_cut_into_other_leaves_are_embedded_with_these(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, pool: Pool, connection: Connection
) -> None:
    await grow(branch, 14)
    await branch.revert(0)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(segment_turns=4))
    await embeddings.add("default", branch.branch_uuid, 12)
    assert [(leaf[0], leaf[1]) for leaf in await connection.fetch(LEAVES)] == [
        *((1, 4), (5, 8), (9, 12))
    ]
    await branch.revert(0)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(segment_turns=6))
    await embeddings.add("default", branch.branch_uuid, 12)
    assert await connection.fetch(LEAVES) == [(1, 6, DIMENSIONS), (7, 12, DIMENSIONS)]
    assert await connection.fetch(TURNS) == [((n + 5) // 6 * 6, n) for n in range(1, 13)]


async def test_a_fork_keeps_the_vectors_of_leaves_that_its_parent_cuts_otherwise(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, pool: Pool, connection: Connection
) -> None:
    await grow(branch, 14)
    await embeddings.add("default", branch.branch_uuid, 12)
    await branch.fork("side")
    await branch.revert(0)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(segment_turns=4))
    await embeddings.add("default", branch.branch_uuid, 12)
    kept = [(leaf[0], leaf[1]) for leaf in await connection.fetch(LEAVES)]
    assert kept == [(1, 4), (1, 6), (5, 8), (9, 12)]
