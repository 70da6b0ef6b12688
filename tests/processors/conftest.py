"""A branch to work over."""

import pytest

from durable_context import Branch, ContextClient


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation", "main")
