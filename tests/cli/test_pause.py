"""`durable-context pause` and `resume`: of a branch, of a tenant, and what other commands say."""

from datetime import UTC, datetime

import pytest

from durable_context import ContextClient
from tests.cli.running import Run
from tests.turns import numbered

NOWHERE = ("--temporal", "127.0.0.1:1")


async def test_a_branch_is_paused_and_resumed(durable_context: Run, client: ContextClient):
    branch = await client.open_branch("orders")
    ended = await durable_context("pause", "orders", "--because", "[red]budget\x1b[31m")
    assert ended.code == 0, ended.errors
    assert ended.out.startswith("orders / main paused since 20")
    assert ended.out.endswith(": [red]budget\\x1b[31m\n")
    assert len(await branch.pauses()) == 1
    again = await durable_context("pause", "orders", "--iso")
    since = (await branch.pauses())[0].since.astimezone(UTC)
    assert f" paused since {since:%Y-%m-%dT%H:%M:%SZ}: [red]" in again.out
    ended = await durable_context("resume", "orders", *NOWHERE)
    assert ended.code == 0, ended.errors
    assert ended.out == (
        "orders / main goes on: what is due is compacted by the catch-up sweep, or a next turn\n"
    )
    assert await branch.pauses() == ()


async def test_all_conversations_are_paused_and_resumed(
    durable_context: Run, client: ContextClient
):
    branch = await client.open_branch("orders")
    ended = await durable_context("pause", "--all-conversations", "--because", "audit")
    assert ended.code == 0, ended.errors
    assert ended.out.startswith("tenant default paused with all of its tenant since 20")
    ended = await durable_context("resume", "orders", *NOWHERE)
    assert ended.out.startswith("orders / main paused with all of its tenant since 20")
    ended = await durable_context("resume", "--all-conversations", *NOWHERE)
    assert ended.out.startswith("tenant default goes on: what is due is compacted by the catch-up")
    assert await branch.pauses() == ()


async def test_json_says_of_what_since_when_and_why(durable_context: Run, client: ContextClient):
    await (await client.open_branch("orders")).fork("idea")
    shown = await durable_context(
        "pause", "orders", "--branch", "idea", "--because", "budget", "--json"
    )
    [pause] = shown.figures.pop("pauses")
    assert shown.figures | {"pauses": None} == {
        "tenant": "default",
        "conversation_id": "orders",
        "branch_id": "idea",
        "pauses": None,
    }
    assert (pause["of"], pause["because"]) == ("branch", "budget")
    assert datetime.fromisoformat(pause["since"]).utcoffset() is not None
    shown = await durable_context("resume", "orders", "--branch", "idea", "--json", *NOWHERE)
    assert (shown.figures["pauses"], shown.figures["hinted"]) == ([], False)


async def test_other_commands_say_that_a_branch_is_paused(
    durable_context: Run, client: ContextClient
):
    branch = await client.open_branch("orders")
    for turn in range(1, 9):
        await branch.record_turn(numbered(turn))
    await branch.pause("budget")
    shown = await durable_context("show", "orders")
    assert shown.code == 0, shown.errors
    assert "\npaused since 20" in shown.out and ": budget\n" in shown.out
    assert "a segment is due" in shown.out
    tree = await durable_context("branches", "orders")
    assert " · paused since 20" in tree.out
    events = await durable_context("events", "orders")
    assert events.out.splitlines()[-1].split()[-1] == "paused"
    refused = await durable_context("compact", "orders", *NOWHERE)
    assert refused.code == 1
    assert "branch 'main' of 'orders' is paused since 20" in refused.errors
    assert refused.errors.endswith(
        "nothing is compacted. `durable-context resume` ends the pause.\n"
    )


@pytest.mark.parametrize("command", ["pause", "resume"])
async def test_what_to_pause_must_be_said_and_said_once(durable_context: Run, command: str):
    for arguments in ((), ("orders", "--all-conversations")):
        ended = await durable_context(command, *arguments)
        assert ended.code == 2
        assert "name a conversation, or else give --all-conversations" in ended.errors
    ended = await durable_context(command, "--all-conversations", "--branch", "idea")
    assert ended.code == 2
    assert "--branch" in ended.errors


async def test_a_branch_that_is_not_there_cannot_be_paused(
    durable_context: Run, client: ContextClient
):
    await client.open_branch("orders")
    ended = await durable_context("pause", "orders", "--tenant", "other")
    assert ended.code == 1
    assert "has no branch 'main' of conversation 'orders'" in ended.errors
