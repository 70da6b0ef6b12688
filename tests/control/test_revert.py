"""Going back to an older checkpoint: what is rejected, what comes back, and who notices nothing."""

import asyncio
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import CheckpointNotFound, InvalidArgument, StalePlan
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import Steps, record
from tests.replacing import replace_node

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
BUDGET = Budget(max_tokens=100_000)
ASKED = "Where was SHP-0003, and where SHP-0010?"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def compacted(pool: Pool, branch: Branch, turns: int) -> None:
    await record(branch, turns)
    await compact_all(pool, branch.branch_uuid)


async def test_a_branch_stands_as_when_the_checkpoint_was_the_newest(
    branch: Branch, pool: Pool
) -> None:
    await compacted(pool, branch, 14)
    before = await branch.checkpoints()
    nodes = await branch.summaries()
    await compacted(pool, branch, 14)
    assert {node.level for node in await branch.summaries()} == {0, 1}
    reverted = await branch.revert(12)
    assert reverted == before[-1]
    assert await branch.checkpoints() == before
    assert await branch.summaries() == nodes
    state = await branch.inspect()
    assert state.checkpoint == reverted and state.frontier == nodes
    assert [turn.turn_no for turn in state.tail] == list(range(13, 29))
    assert state.lag.turns == 14


async def test_the_next_compaction_asks_again_and_finds_nothing_that_was_rejected(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    steps = Steps(pool, branch)
    await record(branch, 20)
    while (await steps.all()).more:
        pass
    asked = len(steps.summarizer.asked)
    await branch.revert(6)
    rejected = await _ids(connection, branch, "rejected")
    assert len(rejected) == 2
    while (await steps.all()).more:
        pass
    assert len(steps.summarizer.asked) == asked + 2
    nodes = await branch.summaries()
    assert [node.revision for node in nodes] == [1, 2, 2]
    assert not rejected & {node.summary_id for node in nodes}
    assert await _ids(connection, branch, "rejected") == rejected, "they stay"


async def test_going_back_to_nothing_at_all(branch: Branch, pool: Pool) -> None:
    await compacted(pool, branch, 20)
    assert await branch.revert(0) is None
    assert await branch.checkpoints() == () and await branch.summaries() == ()
    prepared = await branch.prepare("Well?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    assert not [one for one in prepared.manifest.blocks if one.kind == "checkpoint"]
    assert await compact_all(pool, branch.branch_uuid) == 3


async def test_going_back_to_what_is_current_changes_nothing(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 20)
    newest = (await branch.checkpoints())[-1]
    before = await _stored(connection)
    for to in (18, newest.checkpoint_id):
        assert await branch.revert(to) == newest
    assert await _stored(connection) == before
    await branch.revert(12)
    before = await _stored(connection)
    await branch.revert(12)
    assert await _stored(connection) == before


async def test_what_a_revert_would_do_is_told_and_not_done(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 20)
    before = await _stored(connection)
    foreseen = await branch.foresee_revert(6)
    assert await _stored(connection) == before
    first = (await branch.checkpoints())[0]
    assert (foreseen.from_turn, foreseen.to_turn) == (18, 6)
    assert foreseen.checkpoint_id == first.checkpoint_id
    assert (foreseen.nodes_rejected, foreseen.checkpoints_rejected) == (2, 2)


async def test_a_revert_is_an_event_with_its_figures(branch: Branch, pool: Pool) -> None:
    await compacted(pool, branch, 20)
    await branch.revert(6, because="The summary of turns 7-12 is wrong")
    *_, event = [event async for event in branch.events()]
    assert (event.kind, event.turn_no) == ("reverted", 6)
    assert (event.data["from_turn"], event.data["to_turn"]) == (18, 6)
    assert event.data["nodes_rejected"] == event.data["checkpoints_rejected"] == 2
    assert event.data["because"] == "The summary of turns 7-12 is wrong"


async def test_what_was_replaced_since_is_published_anew(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 14)
    [first, second] = await branch.summaries()
    newer = await replace_node(connection, branch, 1, "All is different.")
    assert [node.summary_id for node in await branch.summaries()] == [newer, second.summary_id]
    await compacted(pool, branch, 6)
    checkpoint = await branch.revert(6)
    assert checkpoint is not None
    [copy] = await branch.summaries()
    assert copy.summary_id not in (first.summary_id, newer)
    assert copy.text == first.text and copy.revision == 2
    assert checkpoint.frontier == (copy.summary_id,)
    assert (await branch.inspect()).frontier == (copy,)
    assert newer in await _ids(connection, branch, "rejected")


async def test_a_checkpoint_that_was_replaced_comes_back_by_its_id(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 14)
    old = (await branch.checkpoints())[-1]
    await replace_node(connection, branch, 7, "All is different.")
    [_, revised] = await branch.checkpoints()
    assert revised.checkpoint_id != old.checkpoint_id and revised.turn_no == 12
    copy = await branch.revert(old.checkpoint_id)
    assert copy is not None
    assert copy.text == old.text and copy.ledger == old.ledger
    assert copy.checkpoint_id not in (old.checkpoint_id, revised.checkpoint_id)
    [_, node] = await branch.summaries()
    assert node.summary_id == copy.frontier[-1]
    before = await _stored(connection)
    assert await branch.revert(old.checkpoint_id) == copy, "again"
    assert await _stored(connection) == before
    with pytest.raises(InvalidArgument, match="was rejected by a revert"):
        await branch.revert(revised.checkpoint_id)


async def test_checkpoints_that_are_not_there_are_told_with_those_that_are(
    branch: Branch, pool: Pool
) -> None:
    await compacted(pool, branch, 14)
    with pytest.raises(CheckpointNotFound, match=r"allowed are turns 0, 6, 12$"):
        await branch.revert(7)
    with pytest.raises(CheckpointNotFound, match="no such checkpoint; allowed are"):
        await branch.revert(uuid4())
    for wrong in (-1, True, "6", None, 2**31):
        with pytest.raises(InvalidArgument, match="the turn of a checkpoint, its id"):
            await branch.revert(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="because"):
        await branch.revert(6, because="")


async def test_a_fork_goes_back_as_far_as_what_it_was_forked_with(
    branch: Branch, pool: Pool
) -> None:
    await compacted(pool, branch, 14)
    fork = await branch.fork("fork")
    await compacted(pool, fork, 12)
    own = (await fork.checkpoints())[-1]
    with pytest.raises(
        InvalidArgument, match=r"forked with the checkpoint of turn 12.*12, 18, 24$"
    ):
        await fork.revert(6)
    first = (await branch.checkpoints())[0]
    with pytest.raises(InvalidArgument, match="goes back no further"):
        await fork.revert(first.checkpoint_id)
    assert await fork.revert(12) == (await branch.checkpoints())[-1]
    assert await fork.summaries() == await branch.summaries()
    assert await compact_all(pool, fork.branch_uuid) == 2
    again = (await fork.checkpoints())[-1]
    assert again.turn_no == 24 and again.checkpoint_id != own.checkpoint_id


async def test_a_fork_keeps_all_that_its_parent_rejects(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    steps = Steps(pool, branch)
    await record(branch, 28)
    while (await steps.all()).more:
        pass
    await replace_node(connection, branch, 7, "The ostrich was late.")
    await steps.index(1, 24)
    fork = await branch.fork("fork")
    grandchild = await fork.fork("grandchild")
    both = (fork, grandchild)
    seen = [await _seen(one) for one in both]
    assert [await fork.search("ostrich"), await branch.search("ostrich")] != [(), ()]
    await branch.revert(6)
    assert [await _seen(one) for one in both] == seen
    assert await branch.search("ostrich") == ()
    await compact_all(pool, branch.branch_uuid)
    after = [await _seen(one) for one in both]
    assert [one[:3] for one in after] == [one[:3] for one in seen]


async def test_documents_stay_in_the_index_while_a_fork_needs_them(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 14)
    await branch.fork("fork")
    await compacted(pool, branch, 14)
    await branch.revert(6)
    assert await _indexed(connection, branch) == [(6, 0), (12, 0)]
    await compact_all(pool, branch.branch_uuid)
    assert await _indexed(connection, branch) == [(6, 0), (12, 0), (18, 0), (24, 0), (24, 1)]
    await branch.revert(0)
    assert await _indexed(connection, branch) == [(6, 0), (12, 0)]


async def test_nothing_that_was_rejected_is_searched_or_retrieved(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 20)
    node = await replace_node(connection, branch, 7, "A pelican signed for it.")
    await Steps(pool, branch).index(1, 18)
    await branch.fork("fork")
    assert [hit.headline for hit in await branch.search("pelican")] == ["A pelican signed for it."]
    await branch.revert(6)
    assert await branch.search("pelican") == ()
    prepared = await branch.prepare("Who was the pelican?", budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    assert str(node) not in str(prepared.manifest)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(segment_turns=4))
    assert (await branch.search("SHP-0009"))[0].to_turn == 10
    assert await branch.search("pelican") == ()


async def test_a_compaction_that_was_planned_before_does_not_bring_drafts_back(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    steps = Steps(pool, branch)
    await record(branch, 20)
    await steps.all()
    plan = await steps.plan()
    made = await steps.summarize(plan)
    await branch.revert(0)
    with pytest.raises(StalePlan):
        await steps.commit(plan, made)
    assert await branch.summaries() == ()
    [running] = [one for one in await branch.compactions() if one.from_turn == 7]
    assert running.status == "failed" and running.error == "the branch was reverted to turn 0"
    draft = {one.summary_id for one in made}
    assert draft <= await _ids(connection, branch, "rejected")
    while (await steps.all()).more:
        pass
    assert not draft & {node.summary_id for node in await branch.summaries()}


async def test_a_draft_of_the_segment_that_is_due_again_is_made_anew(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    steps = Steps(pool, branch)
    await record(branch, 14)
    await steps.all()
    old = (await branch.checkpoints())[-1]
    await replace_node(connection, branch, 1, "All is different.")
    plan = await steps.plan()
    made = await steps.summarize(plan)
    await branch.revert(old.checkpoint_id)
    with pytest.raises(StalePlan):
        await steps.commit(plan, made)
    again = await steps.plan()
    assert again.nodes == plan.nodes
    remade = await steps.summarize(again)
    assert not {one.summary_id for one in made} & {one.summary_id for one in remade}
    await steps.commit(again, remade)


async def test_parts_of_rejected_work_are_dropped(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(pool, branch, 14)
    await connection.execute(
        "insert into durable_context.summary_parts (tenant, branch_uuid, recipe, input_hash, draft)"
        " values ('default', $1, 'some/1', sha256('x'), '{}')",
        branch.branch_uuid,
    )
    await branch.revert(6)
    assert not await connection.fetchval("select count(*) from durable_context.summary_parts")


@pytest.mark.parametrize("delay", range(4))
async def test_a_revert_and_compactions_at_once_leave_every_turn_covered_once(
    branch: Branch, pool: Pool, connection: Connection, delay: int
) -> None:
    await compacted(pool, branch, 14)
    await record(branch, 16)

    async def compact() -> None:
        steps = Steps(pool, branch, ScriptedSummarizer())
        for _ in range(12):
            plan = await steps.plan()
            if not plan.nodes:
                return
            try:
                await steps.commit(plan, await steps.summarize(plan))
            except StalePlan:
                continue

    async def revert() -> None:
        for to in (6, 0, 6):
            await asyncio.sleep(0.01 * delay)
            try:
                await branch.revert(to)
            except CheckpointNotFound:
                continue

    await asyncio.gather(compact(), compact(), revert())
    await _check_tree(branch, connection)
    await compact_all(pool, branch.branch_uuid)
    assert (await branch.checkpoints())[-1].turn_no == 24
    await _check_tree(branch, connection)


async def test_a_revert_is_of_one_tenant(
    branch: Branch, pool: Pool, database_url: str, connection: Connection
) -> None:
    await compacted(pool, branch, 14)
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as other:
        theirs = await other.open_branch("conversation")
        before = await _stored(connection)
        checkpoint = (await branch.checkpoints())[0]
        with pytest.raises(CheckpointNotFound):
            await theirs.revert(checkpoint.checkpoint_id)
    assert await _stored(connection) == before


async def _seen(branch: Branch) -> tuple[Any, ...]:
    prepared = await branch.prepare(ASKED, budget=BUDGET)
    assert isinstance(prepared, PreparedContext)
    found = await branch.search("SHP-0010 ostrich", limit=10)
    state = await branch.inspect()
    return await branch.summaries(), await branch.checkpoints(), state.frontier, prepared, found


async def _check_tree(branch: Branch, connection: Connection) -> None:
    """The newest checkpoint is the branch's, covers its turns once, and is made of current nodes;
    leaves cover the same turns once.
    """
    state = await branch.inspect()
    turn = await connection.fetchval(
        "select checkpoint_turn from durable_context.branches where branch_uuid = $1",
        branch.branch_uuid,
    )
    assert turn == (state.checkpoint.turn_no if state.checkpoint else 0)
    leaves = [node for node in await branch.summaries() if node.level == 0]
    for nodes in (state.frontier, leaves):
        covered = [no for node in nodes for no in range(node.from_turn, node.to_turn + 1)]
        assert covered == list(range(1, turn + 1))
    if state.checkpoint:
        assert state.checkpoint.frontier == tuple(node.summary_id for node in state.frontier)
    current = await _ids(connection, branch, "current")
    assert {node.summary_id for node in await branch.summaries()} == current


async def _ids(connection: Connection, branch: Branch, state: str) -> set[UUID]:
    rows = await connection.fetch(
        "select summary_id from durable_context.summaries where branch_uuid = $1 and state = $2",
        branch.branch_uuid,
        state,
    )
    return {row[0] for row in rows}


async def _indexed(connection: Connection, branch: Branch) -> list[tuple[int, int]]:
    """Documents, each of which has postings, and no others have any."""
    documents, posted = [
        await connection.fetch(
            f"select distinct to_turn, level from durable_context.{table}"
            " where branch_uuid = $1 order by to_turn, level",
            branch.branch_uuid,
        )
        for table in ("indexed_documents", "postings")
    ]
    assert documents == posted
    return [tuple(row) for row in documents]


async def _stored(connection: Connection) -> list[Any]:
    """All that a revert may touch."""
    found: list[Any] = []
    for table in (
        "branches",
        "summaries",
        "checkpoints",
        "events",
        "indexed_documents",
        "postings",
    ):
        rows = await connection.fetch(
            f"select t::text from durable_context.{table} t order by t::text"
        )
        found += [row[0] for row in rows]
    return found
