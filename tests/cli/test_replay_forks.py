"""`durable-context replay --fork`: both branches of a conversation, and what is said of them."""

from collections.abc import Callable
from pathlib import Path

from durable_context import ContextClient
from durable_context.database import Pool
from examples.demo import OWN_TRANSCRIPT
from tests.cli.conversations import run_of_tools, talk
from tests.cli.running import Run
from tests.compacting import compact_all

Write = Callable[..., Path]
OFFLINE = ("--temporal", "none", "--json")


async def test_the_rest_is_replayed_into_the_parent_and_the_fork(
    durable_context: Run, written: Write, client: ContextClient
):
    ended = await durable_context("replay", written(talk(9)), "--fork", *OFFLINE)
    assert ended.code == 0, ended.errors
    figures = ended.figures
    assert (figures["conversations"], figures["forks"], figures["turns"]) == (1, 1, 9 + 5)
    assert figures["invalid"] == figures["over_budget"] == figures["artifacts"] == 0
    main, fork = await client.branches("talk")
    assert (fork.branch_id, fork.parent_id, fork.fork_turn) == ("fork-at-4", "main", 4)
    assert main.head_turn == fork.head_turn == 9
    own = await (await client.find_branch("talk", "fork-at-4")).turns()
    assert [turn.turn_key for turn in own[3:6]] == ["replay-4", "fork-replay-5", "fork-replay-6"]
    parent = await (await client.find_branch("talk")).turns()
    assert [turn.messages for turn in own] == [turn.messages for turn in parent]
    assert figures["raw_tokens"] == sum(turn.token_count for turn in (*parent, *own[4:]))


async def test_branches_are_shown_apart(durable_context: Run, written: Write):
    shown = await durable_context("replay", written(talk(4)), "--fork", "--temporal", "none")
    assert shown.code == 0, shown.errors
    rows = [
        line.split()[:2] for line in shown.out.splitlines() if line.startswith(("main", "fork"))
    ]
    assert rows == [["main", str(n)] for n in (1, 2, 3, 4)] + [["fork-at-2", n] for n in "34"]
    assert "6 turns of 1 conversation and 1 fork, " in shown.out
    assert "over budget 0, invalid 0;" in shown.out

    many = written([{"id": "one", "messages": talk(2)}, {"id": "two", "messages": talk(3)}])
    shown = await durable_context("replay", many, "--fork", "--temporal", "none")
    names = [line.split("  ")[0] for line in shown.out.splitlines() if line.startswith(("o", "t"))]
    assert names == ["one", "one / fork-at-1", "two", "two / fork-at-1"]


async def test_replaying_with_forks_again_records_nothing_twice(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(talk(6))
    await durable_context("replay", file, "--fork", *OFFLINE)
    again = await durable_context("replay", file, "--fork", *OFFLINE)
    assert again.code == 0, again.errors
    assert again.figures["turns"] == again.figures["repeated"] == 9
    shorter = await durable_context("replay", file, "--fork", "--limit", "2", *OFFLINE)
    assert (shorter.figures["turns"], shorter.figures["repeated"]) == (3, 2)
    assert len(await client.branches("talk")) == 3, "another limit forks elsewhere"


async def test_a_conversation_of_one_turn_is_forked_before_it(
    durable_context: Run, written: Write, client: ContextClient
):
    ended = await durable_context("replay", written(talk(1)), "--fork", *OFFLINE)
    assert (ended.figures["forks"], ended.figures["turns"]) == (1, 2)
    assert (await client.branches("talk"))[1].fork_turn == 0


async def test_a_run_is_forked_between_its_stretches(
    durable_context: Run, written: Write, client: ContextClient
):
    file = written(run_of_tools(5))
    ended = await durable_context("replay", file, "--fork", "--stretch", "1", *OFFLINE)
    assert ended.figures["turns"] == 6 + 3
    assert ended.figures["invalid"] == 0
    fork = await client.find_branch("talk", "fork-at-3")
    assert [turn.continues for turn in await fork.turns()] == [True] * 5 + [False]


async def test_offloaded_artifacts_are_counted_once(durable_context: Run, written: Write):
    messages = run_of_tools(4)
    messages[2]["content"] = "\n".join(f"first {line}: ok" for line in range(900))
    messages[6]["content"] = "\n".join(f"third {line}: ok" for line in range(900))
    ended = await durable_context("replay", written(messages), "--fork", "--stretch", "1", *OFFLINE)
    assert ended.code == 0, ended.errors
    assert ended.figures["artifacts"] == 3, "one was there at the fork, the other came to both"
    assert ended.figures["invalid"] == 0


async def test_prompts_with_tools_are_counted_as_they_are_sent(durable_context: Run):
    ended = await durable_context("replay", OWN_TRANSCRIPT, "--fork", "--limit", "4", *OFFLINE)
    assert ended.code == 0, ended.errors
    assert (ended.figures["turns"], ended.figures["invalid"]) == (6, 0)


async def test_a_fork_that_was_compacted_goes_on_with_valid_prompts(
    durable_context: Run, written: Write, client: ContextClient, pool: Pool
):
    file = written(talk(30))
    await durable_context("replay", file, "--fork", *OFFLINE, "--limit", "28")
    for branch in await client.branches("talk"):
        await compact_all(pool, branch.branch_uuid)
    parent = await client.find_branch("talk")
    before = await parent.checkpoints()
    fork = await client.find_branch("talk", "fork-at-14")
    assert [one.turn_no for one in await fork.checkpoints()] == [6, 12, 18, 24]
    ended = await durable_context("replay", file, "--fork", *OFFLINE)
    assert ended.code == 0, ended.errors
    assert ended.figures["invalid"] == 0
    assert await parent.checkpoints() == before
