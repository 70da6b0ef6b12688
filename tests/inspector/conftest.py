"""The inspector's pages over a real database, asked by HTTP without a socket between.

`site.get("/branch", conversation=..., branch=...)` gives the text of a page; `make_site` takes the
fields of `Inspector`, for other settings. `read_only_site` fails for a page that writes anything.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import httpx2
import pytest

from durable_context import ContextClient
from durable_context.inspector.app import make_app
from durable_context.inspector.links import link
from durable_context.inspector.pages import Inspector
from tests.conftest import TEMPLATE
from tests.inspector.databases import emptied
from worker.postgres_server import PostgresServer


class Site:
    def __init__(self, inspected: Inspector) -> None:
        transport = httpx2.ASGITransport(app=make_app(inspected))
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8234")

    async def get(self, path: str, *, expect: int = 200, **query: object) -> str:
        answer = await self.http.get(link(path, **query))
        assert answer.status_code == expect, answer.text
        return answer.text


@pytest.fixture(scope="session")
async def shared_database(postgres: PostgresServer) -> str:
    connection = await asyncpg.connect(postgres.url_of("postgres"))
    await connection.execute(f"create database inspector template {TEMPLATE}")
    await connection.close()
    return postgres.url_of("inspector")


@pytest.fixture
async def database_url(shared_database: str) -> AsyncIterator[str]:
    """The one of all these tests: none of them alters its schema."""
    yield shared_database
    await emptied(shared_database)


@pytest.fixture
async def make_site(client: ContextClient) -> AsyncIterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(**settings: Any) -> Site:
        made.append(Site(Inspector(**({"client": client} | settings))))
        return made[-1]

    yield make
    for site in made:
        await site.http.aclose()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
async def read_only_site(make_site: Callable[..., Site], database_url: str) -> AsyncIterator[Site]:
    """Its transactions are read-only, so that whatever writes is an error."""
    url = f"{database_url}?default_transaction_read_only=on"
    async with await ContextClient.connect(url, temporal=None) as client:
        yield make_site(client=client)
