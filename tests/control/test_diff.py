"""What differs between two checkpoints, and between what the model saw at two turns."""

from typing import TypeAlias
from uuid import uuid4

import asyncpg
import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import CheckpointNotFound, InvalidArgument
from tests.compacting import compact_all
from tests.compaction.test_compactor import record
from tests.replacing import replace_node
from tests.turns import chat, exchange, numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
BUDGET = Budget(max_tokens=50_000, instructions="You answer for a freight company.")


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def test_nodes_and_facts_that_came_and_went_are_told(branch: Branch, pool: Pool) -> None:
    await record(branch, 28)
    await compact_all(pool, branch.branch_uuid)
    first, *_, last = await branch.checkpoints()
    diff = await branch.diff(6, 24)
    assert (diff.before.turn_no, diff.after.turn_no) == (6, 24)
    assert diff.before.checkpoint_id == first.checkpoint_id
    assert (diff.before.token_count, diff.after.token_count) == (
        first.token_count,
        last.token_count,
    )
    nodes = [
        (change.change, change.level, change.from_turn, change.to_turn)
        for change in diff.changes
        if change.section == "node"
    ]
    assert nodes == [("removed", 0, 1, 6), ("added", 1, 1, 24)]
    facts = {entry.value for entry in last.ledger} - {entry.value for entry in first.ledger}
    added = [one for one in diff.changes if one.section == "ledger" and one.change == "added"]
    assert {change.text.partition(": ")[2] for change in added} == facts and facts
    assert diff.lines[0] == "--- checkpoint at turn 6"
    assert any(line.startswith("+") and "SHP-0020" in line for line in diff.lines)


async def test_a_node_that_was_replaced_has_changed(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    old = (await branch.checkpoints())[-1]
    await replace_node(connection, branch, 7, "A cormorant signed for it.")
    diff = await branch.diff(old.checkpoint_id, 12)
    [change] = diff.changes
    assert (change.change, change.from_turn, change.to_turn) == ("changed", 7, 12)
    assert change.text == "A cormorant signed for it."
    assert change.tokens_before and change.tokens_after
    await branch.revert(old.checkpoint_id)
    assert (await branch.diff(old.checkpoint_id, 12)).changes == (), "a copy says the same"


async def test_a_checkpoint_and_itself_differ_in_nothing(branch: Branch, pool: Pool) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    diff = await branch.diff(12, 12)
    assert diff.changes == () and diff.lines == ()


async def test_the_beginning_has_nothing(branch: Branch, pool: Pool) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    diff = await branch.diff(0, 6)
    assert diff.before.checkpoint_id is None and diff.before.token_count == 0
    assert {change.change for change in diff.changes} == {"added"}


async def test_rejected_checkpoints_are_compared_too_and_a_fork_compares_what_it_inherits(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    fork = await branch.fork("fork")
    rejected = (await branch.checkpoints())[-1]
    await branch.revert(6)
    diff = await branch.diff(6, rejected.checkpoint_id)
    assert diff.after.turn_no == 18
    assert (await fork.diff(6, 18)).lines == diff.lines


async def test_checkpoints_that_are_not_there_are_told_with_those_that_are(
    client: ContextClient, branch: Branch, pool: Pool
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    with pytest.raises(CheckpointNotFound, match="no checkpoint at turn 7; those of turns 6, 12"):
        await branch.diff(6, 7)
    with pytest.raises(CheckpointNotFound, match="those of turns 6, 12 are there"):
        await branch.diff(uuid4(), 12)
    other = await client.open_branch("other")
    with pytest.raises(CheckpointNotFound, match="none is"):
        await other.diff((await branch.checkpoints())[0].checkpoint_id, 0)
    for wrong in (-1, True, "6"):
        with pytest.raises(InvalidArgument, match="the turn of a checkpoint"):
            await branch.diff(6, wrong)  # type: ignore[arg-type]


async def test_what_the_model_saw_is_made_again_exactly(branch: Branch, pool: Pool) -> None:
    sent: dict[int, PreparedContext] = {}
    for turn in range(1, 19):
        prepared = await branch.prepare(numbered(turn)[0]["content"], budget=BUDGET)
        assert isinstance(prepared, PreparedContext)
        sent[turn] = prepared
        await branch.record_turn(numbered(turn), prepared=prepared)
        await compact_all(pool, branch.branch_uuid)
    diff = await branch.diff(8, 18, prompts=True)
    for side in (diff.before, diff.after):
        assert side.source == "stored"
        assert side.token_count == sent[side.turn_no].token_count
    assert diff.before.checkpoint_id is None
    assert diff.after.checkpoint_id == (await branch.checkpoints())[1].checkpoint_id
    removed = [line[1:] for line in diff.lines if line.startswith("-") and line[1:2] != "-"]
    added = [line[1:] for line in diff.lines if line.startswith("+") and line[1:2] != "+"]
    shown = [str(sent[turn].messages) for turn in (8, 18)]
    assert all(line in shown[0] for line in removed if not line.endswith(":"))
    assert any("SHP-0018" in line for line in added)
    assert not any("freight company" in line for line in (*removed, *added)), "both have it"
    assert {change.section for change in diff.changes} >= {"checkpoint", "raw"}


async def test_a_prompt_of_before_a_revert_is_told_by_its_manifest(
    branch: Branch, pool: Pool
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    checkpoint = (await branch.checkpoints())[-1]
    prepared = await branch.prepare("Where is SHP-0003?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    await branch.record_turn(chat("Where is SHP-0003?", "Gone."), prepared=prepared)
    await branch.revert(6)
    diff = await branch.diff(14, 15, prompts=True)
    assert (diff.before.source, diff.after.source) == ("prepared", "similar")
    assert diff.after.token_count == prepared.token_count
    assert diff.after.checkpoint_id == checkpoint.checkpoint_id


async def test_prompts_of_a_long_run_can_be_compared(branch: Branch) -> None:
    await branch.record_turn(
        [{"role": "user", "content": "Fix it."}, *exchange("a", "failed")], continues=True
    )
    await branch.record_turn(exchange("b", "failed again"), continues=True)
    await branch.record_turn([*exchange("c", "passed"), {"role": "assistant", "content": "Done."}])
    diff = await branch.diff(1, 3, prompts=True)
    assert any("failed again" in line for line in diff.lines)


async def test_prompts_are_compared_by_turns_that_are_there(branch: Branch) -> None:
    await record(branch, 3)
    with pytest.raises(InvalidArgument, match="there is no turn 4; allowed are 1 to 3"):
        await branch.diff(3, 4, prompts=True)
    for wrong in (0, uuid4(), True):
        with pytest.raises(InvalidArgument, match="by the turns they led to"):
            await branch.diff(1, wrong, prompts=True)
    greeted = await branch.record_turn([{"role": "assistant", "content": "Hello?"}])
    assert (await branch.diff(1, greeted.turn_no, prompts=True)).after.source == "prepared"
