"""What came to be of a branch is read a page at a time, and its next prompt without a trace."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from durable_context import Branch, Budget, BudgetExceeded, ContextClient
from durable_context.database import Pool
from durable_context.errors import ArtifactNotFound, InvalidArgument, SummarizerRejected
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.events import Connection, kinds
from tests.turns import chat, exchange, numbered

MODEL = "model/openai:gpt-4o-mini/1"
SMALL = Budget(max_tokens=20)
WIDE = Budget(max_tokens=32_000)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def record(branch: Branch, turns: int, start: int = 1) -> None:
    for turn in range(start, turns + 1):
        await branch.record_turn(numbered(turn))


async def test_compactions_are_read_in_pages_from_the_newest(branch: Branch, pool: Pool) -> None:
    await record(branch, 26)
    await compact_all(pool, branch.branch_uuid)
    everything = await branch.compactions(100)
    assert len(everything) == 4
    first = await branch.compactions(3)
    rest = await branch.compactions(3, begin=everything[3].compaction_id)
    assert (*first, *rest) == everything
    assert await branch.compactions(2, begin=everything[1].compaction_id) == everything[1:3]


async def test_compactions_are_found_by_how_they_ended_and_why_they_were_made(
    client: ContextClient, branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await connection.execute(
        "insert into durable_context.compactions (tenant, branch_uuid, level, from_turn, to_turn,"
        " status, reason, error) values"
        " ('default', $1, 1, 1, 12, 'failed', 'merge', 'no')",
        branch.branch_uuid,
    )
    [failed] = await branch.compactions(status="failed")
    assert (failed.reason, failed.error) == ("merge", "no")
    assert await branch.compactions(reason="merge") == (failed,)
    assert await client.compactions(reason="merge", status="failed") == (failed,)
    assert await client.compactions(reason="merge", status="completed") == ()
    assert len(await branch.compactions(status="completed", reason="turn")) == 2


async def test_totals_are_of_all_that_is_asked_for(
    client: ContextClient, branch: Branch, pool: Pool
) -> None:
    other = await client.open_branch("other")
    for one in (branch, other):
        await record(one, 8)
    await compact_all(pool, branch.branch_uuid, summarizer=ScriptedSummarizer(recipe=MODEL))
    await compact_all(pool, other.branch_uuid)
    totals = await branch.compaction_totals()
    [made] = await branch.compactions()
    assert (totals.count, totals.completed, totals.failed) == (1, 1, 0)
    assert (totals.input_tokens, totals.output_tokens) == (500, 20)
    assert (totals.price, totals.balance) == (made.price, made.balance)
    everything = await client.compaction_totals()
    assert (everything.count, everything.input_tokens) == (2, 500)
    assert (await client.compaction_totals(status="failed")).count == 0
    assert (await branch.compaction_totals(reason="merge")).price == Decimal(0)


async def test_a_compaction_is_degraded_where_what_it_published_is(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 14)
    summarizer = ScriptedSummarizer(SummarizerRejected("no"))
    await compact_all(pool, branch.branch_uuid, summarizer=summarizer)
    found = {one.from_turn: one.degraded for one in await branch.compactions()}
    assert found == {1: True, 7: False}


async def test_pages_begin_with_what_the_branch_has(
    client: ContextClient, branch: Branch, pool: Pool
) -> None:
    other = await client.open_branch("other")
    await record(other, 8)
    await compact_all(pool, other.branch_uuid)
    [elsewhere] = await other.compactions()
    for begin in (uuid4(), elsewhere.compaction_id):
        with pytest.raises(InvalidArgument, match=f"begin={begin}; there is no such compaction"):
            await branch.compactions(begin=begin)
    with pytest.raises(ArtifactNotFound):
        await branch.newest_artifacts(begin="art_" + 22 * "A")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"status": "done"}, "status='done'; allowed are running, completed, failed, skipped"),
        ({"reason": "fun"}, "reason='fun'; allowed are turn, request, sweep, merge, upgrade"),
        ({"limit": -1}, "limit=-1"),
    ],
)
async def test_what_no_compaction_can_be_is_refused(
    branch: Branch, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        await branch.compactions(**asked)


async def test_events_are_read_from_the_newest_back(branch: Branch) -> None:
    await record(branch, 5)
    await branch.put_artifact("plan", name="plan")
    await record(branch, 7, start=6)
    everything = [event async for event in branch.events()][::-1]
    assert await branch.newest_events(100) == tuple(everything)
    assert await branch.newest_events(2, before=4) == tuple(everything[-3:-1])
    assert await branch.newest_events(before=1) == ()
    [put] = await branch.newest_events(kinds=["put"])
    assert (put.kind, put.cursor) == ("put", 6)
    assert len(await branch.newest_events(3, kinds=["put", "recorded"])) == 3


@pytest.mark.parametrize("asked", [{"before": 0}, {"before": True}, {"kinds": ["recorded", "x"]}])
async def test_what_no_event_can_be_is_refused(branch: Branch, asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        await branch.newest_events(**asked)


async def test_artifacts_are_read_from_the_newest_back(branch: Branch) -> None:
    for turn in range(1, 5):
        await branch.record_turn([*chat("go", "on"), *exchange(f"c{turn}", 5_000 * f"{turn} ")])
        await branch.put_artifact(f"version {turn}", name="plan")
    everything = (await branch.artifacts())[::-1]
    assert [one.version for one in everything if one.version] == [4]
    assert await branch.newest_artifacts() == everything
    assert await branch.newest_artifacts(2) == everything[:2]
    assert await branch.newest_artifacts(2, begin=everything[2].handle) == everything[2:4]
    older = (await branch.artifact_history("plan"))[0]
    assert await branch.find_artifact(older.handle) == older


async def test_places_of_checkpoints_tell_of_those_that_were_rejected_and_inherited(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    await branch.revert(12)
    marks = await branch.newest_checkpoints()
    assert [(mark.turn_no, mark.state) for mark in marks] == [
        (18, "rejected"),
        (12, "current"),
        (6, "current"),
    ]
    assert marks[1].checkpoint_id == (await branch.checkpoints())[-1].checkpoint_id
    assert await branch.newest_checkpoints(1) == marks[:1]
    fork = await branch.fork("fork", at_turn=9)
    assert [mark.turn_no for mark in await fork.newest_checkpoints()] == [6]


async def test_a_foreseen_prompt_is_the_one_that_is_prepared(branch: Branch, pool: Pool) -> None:
    await record(branch, 12)
    await compact_all(pool, branch.branch_uuid)
    for asked in ({}, {"at_turn": 7}):
        foreseen = await branch.foresee_prompt("Where is SHP-0003?", budget=WIDE, **asked)
        assert foreseen == await branch.prepare("Where is SHP-0003?", budget=WIDE, **asked)


async def test_a_prompt_that_is_only_looked_at_leaves_nothing_behind(
    make_client: Callable[..., Any], client: ContextClient
) -> None:
    branch = await client.open_branch("conversation")
    await record(branch, 3)
    looking = await make_client()
    seen = await looking.find_branch("conversation")
    foreseen = await seen.foresee_prompt("hello", budget=SMALL)
    assert isinstance(foreseen, BudgetExceeded)
    await looking.close()
    assert "over_budget" not in await kinds(branch)


async def test_prompts_that_are_compared_are_no_events(
    make_client: Callable[..., Any], client: ContextClient
) -> None:
    """One that was shortened is made again within what it came to, which is too little for pins."""
    branch = await client.open_branch("conversation")
    await record(branch, 12)
    tight = await branch.prepare("Where is all of it?", budget=Budget(max_tokens=500))
    assert tight and tight.manifest.reductions
    await branch.record_turn(chat("Where is all of it?", "Under way."), prepared=tight)
    for turn in range(1, 11):
        await branch.pin(turn)
    await branch.record_turn(numbered(14))
    comparing = await make_client()
    await (await comparing.find_branch("conversation")).diff(13, 14, prompts=True)
    assert not comparing._resources.pending_events._waiting


async def test_two_branches_can_be_compared(branch: Branch, pool: Pool) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    fork = await branch.fork("fork", at_turn=8)
    for turn in range(9, 17):
        await fork.record_turn(chat(f"Something else {turn}", "Indeed."))
    await compact_all(pool, fork.branch_uuid)
    differs = await branch.diff(12, 12, other=fork)
    assert {change.section for change in differs.changes} >= {"node", "ledger"}
    assert (await branch.diff(6, 6, other=fork)).changes == ()
    prompts = await branch.diff(12, 12, prompts=True, other=fork)
    assert any("Something else 11" in line for line in prompts.lines if line.startswith("+"))
