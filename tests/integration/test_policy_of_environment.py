"""Clients take the policy of their environment unless they are given one."""

import pytest

from durable_context import CompactionPolicy, ContextClient
from durable_context.errors import InvalidArgument


async def test_a_client_has_the_policy_of_its_environment_by_default(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DURABLE_CONTEXT_POLICY", '{"keep_raw_turns": 5}')
    async with await ContextClient.connect(database_url, temporal=None) as client:
        assert (await client.open_branch("orders")).policy.keep_raw_turns == 5
    own = CompactionPolicy(keep_raw_turns=1)
    async with await ContextClient.connect(database_url, temporal=None, policy=own) as client:
        assert (await client.open_branch("orders")).policy == own


async def test_a_policy_that_is_none_is_refused_before_anything_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DURABLE_CONTEXT_POLICY", '{"keep_raw_turns": -5}')
    with pytest.raises(InvalidArgument, match="keep_raw_turns=-5; allowed is a whole number of at"):
        await ContextClient.connect("postgresql://127.0.0.1:1/none", temporal=None)
