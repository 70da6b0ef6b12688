"""The inspector's pages over a real database, asked by HTTP without a socket between.

`site.get("/branch", conversation=..., branch=...)` gives the text of a page; `make_site` takes the
fields of `Inspector`, for other settings. `read_only_site` fails for a page that writes anything.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from durable_context import ContextClient
from durable_context.inspector.app import make_app
from durable_context.inspector.links import link
from durable_context.inspector.pages import Inspector


class Site:
    def __init__(self, inspected: Inspector) -> None:
        transport = httpx2.ASGITransport(app=make_app(inspected))
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8234")

    async def get(self, path: str, *, expect: int = 200, **query: object) -> str:
        answer = await self.http.get(link(path, **query))
        assert answer.status_code == expect, answer.text
        return answer.text


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
