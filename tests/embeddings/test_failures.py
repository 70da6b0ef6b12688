"""Whatever fails while leaves are embedded: compaction and retrieval go on, and it is said why."""

import logging
from collections.abc import Sequence

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.embeddings.endpoint import OpenAIEmbedder
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.embeddings.pause import FAILURES
from durable_context.embeddings.texts import SHORT_CHARACTERS
from durable_context.errors import EmbedderUnavailable
from tests.embeddings.conftest import LEAVES, TURNS, Grow
from tests.embeddings.embedding_server import DIMENSIONS, fixed, vectors
from tests.events import Connection
from tests.model_server import (
    ModelServer,
    ReceivedRequest,
    Reply,
    failed,
    rate_limited,
    unauthorized,
)
from tests.turns import chat


class Broken:
    """An embedder of a caller's that raises what nobody expects, or returns it."""

    model, dimensions = "broken", None

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]


async def test_what_was_embedded_before_a_failure_is_not_embedded_again(
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
) -> None:
    await grow(branch, 14)
    server.script(vectors(), failed(500))
    with pytest.raises(EmbedderUnavailable):
        await embeddings.add("default", branch.branch_uuid, 12)
    assert await connection.fetch(LEAVES) == [(7, 12, DIMENSIONS)]
    await embeddings.add("default", branch.branch_uuid, 12)
    assert len(await connection.fetch(LEAVES)) == 2
    assert server.count == 3


async def test_an_endpoint_that_stays_down_is_left_alone_for_a_while(
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await grow(branch, 8)
    server.always(rate_limited(retry_after="900"))
    for _ in range(FAILURES - 1):
        with pytest.raises(EmbedderUnavailable):
            await embeddings.add("default", branch.branch_uuid, 6)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await embeddings.add("default", branch.branch_uuid, 6)
    assert server.count == FAILURES
    [line] = caplog.messages
    assert line == "nothing is embedded for 900 s: 'small' answered 429 (rate_limit_exceeded)"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (unauthorized(), "answered 401 (invalid_api_key)"),
        (failed(404, "model_not_found"), "answered 404 (model_not_found)"),
        (fixed([1.0], [1.0]), "gave 2 vectors for 6 texts"),
        (fixed(*[[1.0, 0.0]] * 5, [1.0]), "gave a vector of 1 dimensions, not 2"),
    ],
)
async def test_what_would_fail_again_is_said_and_not_tried_again(
    reply: Reply,
    reason: str,
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await grow(branch, 8)
    server.always(reply)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await embeddings.add("default", branch.branch_uuid, 6)
    assert server.count == 1
    [line] = caplog.messages
    assert line.startswith("nothing is embedded for 300 s") and reason in line
    assert await connection.fetch(LEAVES) == []


async def test_a_size_that_was_asked_for_is_insisted_on(
    branch: Branch,
    grow: Grow,
    pool: Pool,
    server: ModelServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await grow(branch, 8)
    server.always(vectors(dimensions=4))
    embedder = OpenAIEmbedder("small", base_url=server.base_url, dimensions=8)
    await LeafEmbeddings(pool, embedder).add("default", branch.branch_uuid, 6)
    assert "gave a vector of 4 dimensions, not 8" in caplog.text


async def test_texts_that_are_too_long_for_the_model_are_sent_shorter(
    branch: Branch,
    grow: Grow,
    embeddings: LeafEmbeddings,
    server: ModelServer,
    connection: Connection,
) -> None:
    await branch.record_turn(chat("Why? " * 1_000, "So. " * 1_000))
    await grow(branch, 8)
    server.script(failed(400, "context_length_exceeded"))
    await embeddings.add("default", branch.branch_uuid, 6)
    whole, short = [max(map(len, request.body["input"])) for request in server.requests]
    assert short <= SHORT_CHARACTERS + 1 < whole
    assert len(await connection.fetch(TURNS)) == 6


async def test_a_leaf_whose_texts_are_refused_is_passed_over_once_others_are_taken(
    branch: Branch,
    grow: Grow,
    pool: Pool,
    connection: Connection,
) -> None:
    def choosy(request: ReceivedRequest) -> Reply:
        refuses = any("SHP-0003" in text for text in request.body["input"])
        return failed(400) if refuses else vectors()

    async with ModelServer(choosy) as server:
        embeddings = LeafEmbeddings(pool, OpenAIEmbedder("small", base_url=server.base_url))
        await grow(branch, 8)
        for _ in range(2):
            await embeddings.add("default", branch.branch_uuid, 6)
        assert await connection.fetch(LEAVES) == []
        await grow(branch, 14)
        await embeddings.add("default", branch.branch_uuid, 12)
        assert await connection.fetch(LEAVES) == [(1, 6, 0), (7, 12, DIMENSIONS)]
        asked = server.count
        await embeddings.add("default", branch.branch_uuid, 12)
        assert server.count == asked


async def test_an_endpoint_that_refuses_every_text_is_not_asked_for_all_leaves(
    branch: Branch, grow: Grow, embeddings: LeafEmbeddings, server: ModelServer
) -> None:
    await grow(branch, 38)
    server.always(failed(400, "unsupported_dimensions"))
    await embeddings.add("default", branch.branch_uuid, 36)
    assert server.count == 6  # three leaves, each of them twice


@pytest.mark.parametrize("answer", [ValueError("the user's own words"), TimeoutError()])
async def test_an_embedder_may_raise_anything_and_none_of_its_words_get_out(
    answer: Exception, branch: Branch, grow: Grow, pool: Pool
) -> None:
    await grow(branch, 8)
    with pytest.raises(EmbedderUnavailable) as failure:
        await LeafEmbeddings(pool, Broken(answer)).add("default", branch.branch_uuid, 6)
    assert "words" not in str(failure.value)


@pytest.mark.parametrize("answer", [[[0.0, 0.0]] * 6, [[1.0, float("nan")]] * 6])
async def test_vectors_that_say_nothing_are_not_kept(
    answer: object, branch: Branch, grow: Grow, pool: Pool, connection: Connection
) -> None:
    await grow(branch, 8)
    await LeafEmbeddings(pool, Broken(answer)).add("default", branch.branch_uuid, 6)
    assert await connection.fetch(LEAVES) == []


async def test_only_an_answer_ends_a_row_of_failures(
    branch: Branch,
    grow: Grow,
    client: ContextClient,
    embeddings: LeafEmbeddings,
    server: ModelServer,
) -> None:
    await grow(branch, 8)
    server.always(failed(500))
    idle = await client.open_branch("another")
    for _ in range(FAILURES - 1):
        with pytest.raises(EmbedderUnavailable):
            await embeddings.add("default", branch.branch_uuid, 6)
        await embeddings.add("default", idle.branch_uuid, 6)
    await embeddings.add("default", branch.branch_uuid, 6)
    await embeddings.add("default", branch.branch_uuid, 6)
    assert server.count == FAILURES
