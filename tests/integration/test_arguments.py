"""What callers pass by mistake is refused with its name and value, before the database sees it."""

from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import InvalidArgument
from tests.turns import chat


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    branch = await client.open_branch("conversation")
    await branch.record_turn(chat("Hello", "Hello"))
    return branch


WRONG_TURNS: list[Any] = [2**31, -1, "", b"x", [], True, 1.0]


@pytest.mark.parametrize("wrong", WRONG_TURNS)
async def test_a_turn_number_is_one(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="from_turn="):
        await branch.turns(wrong)
    with pytest.raises(InvalidArgument, match="to_turn="):
        await branch.turns(1, wrong)
    with pytest.raises(InvalidArgument, match="expected_head="):
        await branch.record_turn(chat("a", "b"), expected_head=wrong)


async def test_turns_up_to_turn_0_are_none(branch: Branch):
    assert await branch.turns(1, 0) == ()
    assert [turn.turn_no for turn in await branch.turns()] == [1]


@pytest.mark.parametrize("wrong", [-1, 2**63, "", None, True])
async def test_a_limit_is_a_number(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="limit="):
        await branch.compactions(wrong)


@pytest.mark.parametrize("wrong", [None, 1, "x", [], "\ud800"])
async def test_a_turn_continues_or_does_not(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="continues="):
        await branch.record_turn(chat("a", "b"), continues=wrong)


@pytest.mark.parametrize("wrong", ["2020", 1])
async def test_a_time_is_one(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="occurred_at="):
        await branch.record_turn(chat("a", "b"), occurred_at=wrong)


@pytest.mark.parametrize("wrong", [2**63, float("inf"), "1", True, None])
async def test_a_timeout_is_a_time_one_can_wait(branch: Branch, wrong: Any):
    with pytest.raises(InvalidArgument, match="timeout="):
        await branch.wait_until_compacted(timeout=wrong)


@pytest.mark.parametrize("wrong", [None, 1, object()])
async def test_lines_to_import_are_iterable(client: ContextClient, wrong: Any):
    with pytest.raises(InvalidArgument, match="lines="):
        await client.import_branch(wrong, conversation_id="copy")
