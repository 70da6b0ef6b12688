"""An endpoint for vectors, an embedder that asks it, and branches with leaves."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.embeddings.endpoint import OpenAIEmbedder
from durable_context.embeddings.indexing import LeafEmbeddings
from tests.compacting import compact_all
from tests.embeddings.embedding_server import vectors
from tests.events import Connection
from tests.model_server import ModelServer
from tests.turns import numbered

TURNS = """
select to_turn, turn_no from durable_context.turn_embeddings where turn_no > 0 order by turn_no
"""
LEAVES = (
    "select from_turn, to_turn, dimensions from durable_context.leaf_signatures order by to_turn"
)
"""What is stored."""
Grow = Callable[[Branch, int], Awaitable[None]]
"""Record turns up to that one and compact what is due."""


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(lambda _: vectors()) as server:
        yield server
        server.release()


@pytest.fixture
def embedder(server: ModelServer) -> OpenAIEmbedder:
    return OpenAIEmbedder("small", base_url=server.base_url)


@pytest.fixture
def embeddings(pool: Pool, embedder: OpenAIEmbedder) -> LeafEmbeddings:
    return LeafEmbeddings(pool, embedder)


@pytest.fixture
async def without_pgvector(connection: Connection) -> None:
    """The database is as one that has no pgvector any more, or never had."""
    await connection.execute("drop extension vector cascade")


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


@pytest.fixture
def grow(pool: Pool) -> Grow:
    async def grow(branch: Branch, to_turn: int) -> None:
        head = (await branch.inspect()).head_turn
        for turn in range(head + 1, to_turn + 1):
            await branch.record_turn(numbered(turn))
        await compact_all(pool, branch.branch_uuid)

    return grow
