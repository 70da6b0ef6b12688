"""Embedding in real workflows: no content in histories, and no compaction that waits for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from activities.compaction import CompactionActivities
from durable_context import Branch
from durable_context.compaction.compactor import Compactor
from durable_context.database import Pool
from durable_context.embeddings.endpoint import OpenAIEmbedder
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.events import Connection
from tests.model_server import ModelServer, failed, unauthorized
from tests.workflows.conftest import orchestration as orchestration
from tests.workflows.orchestration import Orchestration, record
from tests.workflows.test_histories import PAYLOAD_BYTES, payloads

EMBEDDED = "select count(*) from durable_context.turn_embeddings where turn_no > 0"


@asynccontextmanager
async def working(
    orchestration: Orchestration, pool: Pool, embedder: OpenAIEmbedder
) -> AsyncIterator[None]:
    compactor = Compactor(pool, ExtractiveSummarizer(), embedder=embedder)
    activities = CompactionActivities(compactor)
    async with orchestration.worker(pool, kind=lambda _: activities):  # type: ignore[arg-type]
        yield


async def test_vectors_are_made_after_the_turn_and_no_payload_tells_of_them(
    branch: Branch,
    orchestration: Orchestration,
    pool: Pool,
    embedder: OpenAIEmbedder,
    connection: Connection,
) -> None:
    await record(branch, 14)
    async with working(orchestration, pool, embedder):
        await orchestration.hint(branch)
        await orchestration.result(branch)
    assert await connection.fetchval(EMBEDDED) == 12
    history = await orchestration.history(branch)
    assert max(len(payload) for payload in payloads(history)) < PAYLOAD_BYTES
    text = history.to_json()
    assert not any(word in text for word in ("Rotterdam", "SHP-", "small", "embed"))


@pytest.mark.parametrize("reply", [failed(500), unauthorized()])
async def test_an_endpoint_that_is_down_stops_no_compaction(
    reply: object,
    branch: Branch,
    orchestration: Orchestration,
    pool: Pool,
    server: ModelServer,
    embedder: OpenAIEmbedder,
    connection: Connection,
) -> None:
    server.always(reply)  # type: ignore[arg-type]
    await record(branch, 26)
    async with working(orchestration, pool, embedder):
        await orchestration.hint(branch)
        result = await orchestration.result(branch)
    assert result.checkpoint_turn == 24
    assert server.count <= 4
    assert await connection.fetchval(EMBEDDED) == 0
