"""Branches: forked anywhere at the same cost, read through their lineage, independent of each
other.
"""

import json
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from durable_context.errors import (
    BranchConflict,
    HeadConflict,
    InvalidArgument,
    InvalidId,
    UnknownBranch,
)
from tests.compacting import compact_all
from tests.prompts import check_prompt, kinds, raw_turns
from tests.turns import chat, exchange, numbered, result

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AMPLE = Budget(max_tokens=1_000_000)
LONG = 20_000


async def _record(branch: Branch, count: int) -> None:
    head = (await branch.inspect()).head_turn
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))


async def _prompt(branch: Branch, asked: str | None = "And now?", **options: Any) -> str:
    prepared = await branch.prepare(asked, budget=AMPLE, **options)
    assert prepared
    return json.dumps(prepared.messages)


@pytest.fixture
async def root(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def test_a_child_goes_on_from_the_head_and_shares_nothing_after_it(root: Branch):
    await _record(root, 3)
    child = await root.fork("child")
    assert (child.conversation_id, child.branch_id) == ("conversation", "child")
    assert (child.parent_id, child.fork_turn) == ("main", 3)
    of_root = await root.record_turn(chat("The parent asks about SHP-0444", "Yes"))
    of_child = await child.record_turn(chat("The child asks about SHP-0555", "Yes"))
    assert of_root.turn_no == of_child.turn_no == 4
    inherited = (await root.turns())[:3]
    assert await root.turns() == (*inherited, (await root.turns(4))[0])
    assert (await child.turns())[:3] == inherited
    assert "SHP-0555" not in await _prompt(root) and "SHP-0444" in await _prompt(root)
    assert "SHP-0444" not in await _prompt(child) and "SHP-0555" in await _prompt(child)


async def test_a_fork_twenty_deep_reads_every_ancestor(client: ContextClient, pool: Pool):
    branch = await client.open_branch("conversation")
    for depth in range(20):
        await _record(branch, 2)
        await compact_all(pool, branch.branch_uuid)
        branch = await branch.fork(f"depth-{depth + 1}")
    await _record(branch, 2)
    await compact_all(pool, branch.branch_uuid)
    turns = await branch.turns()
    assert [turn.messages[0].content for turn in turns] == [
        numbered(turn)[0]["content"] for turn in range(1, 43)
    ]
    state = await branch.inspect()
    assert [one.branch_id for one in state.lineage] == [
        *(f"depth-{depth}" for depth in range(20, 0, -1)),
        "main",
    ]
    assert [one.from_turn for one in state.lineage] == list(range(41, 0, -2))
    checkpoints = await branch.checkpoints()
    assert [checkpoint.turn_no for checkpoint in checkpoints] == [6, 12, 18, 24, 30, 36]
    assert [c.parent_id for c in checkpoints] == [None, *(c.checkpoint_id for c in checkpoints)][:6]
    for at_turn in (None, 1, 17, 41):
        prepared = await branch.prepare("SHP-0002?", budget=AMPLE, at_turn=at_turn)
        assert prepared
        check_prompt(prepared, at_turn or 42, branch.policy)


async def test_a_fork_at_turn_0_begins_with_nothing(root: Branch, pool: Pool):
    await _record(root, 9)
    await compact_all(pool, root.branch_uuid)
    child = await root.fork("child", at_turn=0)
    assert await child.turns() == await child.checkpoints() == await child.summaries() == ()
    assert kinds_of(await root.prepare("Hello", budget=AMPLE, at_turn=0)) == ["user"]
    assert kinds_of(await child.prepare("Hello", budget=AMPLE)) == ["user"]
    turn = await child.record_turn(numbered(7))
    assert turn.turn_no == 1
    empty = await child.fork("of an empty one", at_turn=0)
    assert (empty.parent_id, empty.fork_turn) == ("child", 0)


def kinds_of(prepared: object) -> list[str]:
    assert isinstance(prepared, PreparedContext)
    return kinds(prepared)


async def test_a_branch_without_turns_can_be_forked(root: Branch):
    child = await root.fork("child")
    await _record(root, 2)
    assert child.fork_turn == 0 and await child.turns() == ()


async def test_a_fork_of_a_fork_below_its_own_fork_turn_sees_the_grandparent_alone(
    root: Branch, pool: Pool
):
    await _record(root, 10)
    await root.put_artifact("of the root", name="plan")
    child = await root.fork("child")
    await child.put_artifact("of the child", name="plan")
    await _record(child, 8)
    await compact_all(pool, child.branch_uuid)
    early = await child.fork("early", at_turn=5)
    assert (early.parent_id, early.fork_turn) == ("child", 5)
    assert await early.turns() == (await root.turns())[:5]
    assert await early.artifacts() == ()
    assert await early.checkpoints() == ()
    state = await early.inspect()
    assert [(one.branch_id, one.from_turn, one.to_turn) for one in state.lineage] == [
        ("early", 6, 5),
        ("child", 11, 5),
        ("main", 1, 5),
    ]
    later = await child.fork("later", at_turn=9)
    assert [checkpoint.turn_no for checkpoint in await later.checkpoints()] == [6]


async def test_a_fork_has_raw_turns_wherever_it_is_made(root: Branch, pool: Pool):
    await _record(root, 30)
    await compact_all(pool, root.branch_uuid)
    for at_turn in range(1, 31):
        child = await root.fork(f"at {at_turn}", at_turn=at_turn)
        prepared = await child.prepare("And?", budget=AMPLE)
        early = await root.prepare("And?", budget=AMPLE, at_turn=at_turn)
        assert prepared and early
        assert prepared.messages == early.messages
        check_prompt(prepared, at_turn, child.policy)
        first = 1 if at_turn < 8 else at_turn - 1
        assert raw_turns(prepared) == list(range(first, at_turn + 1))
        [checkpoint] = (await child.checkpoints())[-1:] or [None]
        assert (checkpoint.turn_no if checkpoint else 0) == max(0, (at_turn - 2) // 6 * 6)


async def test_the_same_fork_again_is_the_same_branch(root: Branch):
    await _record(root, 5)
    first = await root.fork("child", at_turn=3)
    await first.record_turn(numbered(4))
    again = await root.fork("child", at_turn=3)
    assert again.branch_uuid == first.branch_uuid and again.fork_turn == 3
    assert len(await again.turns()) == 4


async def test_a_fork_at_the_head_is_repeated_after_the_parent_went_on(root: Branch):
    await _record(root, 2)
    first = await root.fork("child")
    await _record(root, 2)
    again = await root.fork("child")
    assert (again.branch_uuid, again.fork_turn) == (first.branch_uuid, 2)


async def test_an_id_that_is_taken_by_another_branch_is_refused(
    root: Branch, client: ContextClient
):
    await _record(root, 4)
    child = await root.fork("child", at_turn=3)
    with pytest.raises(BranchConflict, match=r"'child' .* not a fork of 'main' at turn 2"):
        await root.fork("child", at_turn=2)
    with pytest.raises(BranchConflict, match="not a fork of 'child'"):
        await child.fork("main")
    with pytest.raises(BranchConflict):
        await root.fork("main")
    with pytest.raises(BranchConflict):
        await child.fork("child")
    await client.open_branch("conversation", "other root")
    with pytest.raises(BranchConflict):
        await root.fork("other root")
    assert len(await client.branches("conversation")) == 3


async def test_other_conversations_and_tenants_have_branches_of_the_same_name(
    root: Branch, client: ContextClient, make_client: Any
):
    await _record(root, 2)
    mine = await root.fork("child")
    elsewhere = await client.open_branch("elsewhere")
    other = await (await make_client(tenant="other")).open_branch("conversation")
    assert len({b.branch_uuid for b in (mine, await elsewhere.fork("child"))}) == 2
    child = await other.fork("child")
    assert await child.turns() == ()


@pytest.mark.parametrize("at_turn", [4, 2**31 - 1])
async def test_a_turn_that_is_not_there_is_refused(
    root: Branch, client: ContextClient, at_turn: int
):
    await _record(root, 3)
    with pytest.raises(InvalidArgument, match=f"at_turn={at_turn}; allowed are 0 to 3"):
        await root.fork("child", at_turn=at_turn)
    with pytest.raises(InvalidArgument, match=f"at_turn={at_turn}; allowed are 0 to 3"):
        await root.prepare("Hi", budget=AMPLE, at_turn=at_turn)
    assert len(await client.branches("conversation")) == 1


@pytest.mark.parametrize("at_turn", [-1, 2**31, True, 1.0, "3"])
async def test_what_is_no_turn_number_is_refused(root: Branch, at_turn: Any):
    for refused in (root.fork("x", at_turn=at_turn), root.restore(at_turn)):
        with pytest.raises(InvalidArgument, match="it must be a turn number"):
            await refused
    with pytest.raises(InvalidArgument, match="it must be a turn number"):
        await root.prepare("Hi", budget=AMPLE, at_turn=at_turn)


@pytest.mark.parametrize("branch_id", ["", "a\x00b", "x" * 501, 7])
async def test_what_is_no_id_is_refused(root: Branch, branch_id: Any):
    with pytest.raises(InvalidId):
        await root.fork(branch_id)


async def test_ids_are_data(root: Branch, client: ContextClient):
    name = "'; drop table durable_context.branches; --\n<ü>%s{0}/../.."
    child = await root.fork(name)
    assert [branch.branch_id for branch in await client.branches("conversation")] == ["main", name]
    found = await client.find_branch("conversation", name)
    assert (found.parent_id, found.branch_uuid) == ("main", child.branch_uuid)


async def test_numbers_go_on_from_the_fork_and_keys_are_each_branchs_own(root: Branch):
    for turn in range(1, 4):
        await root.record_turn(numbered(turn), turn_key=f"key-{turn}")
    child = await root.fork("child", at_turn=1)
    second = await child.record_turn(chat("Another second turn", "Yes"), turn_key="key-2")
    assert (second.turn_no, second.repeated) == (2, False)
    again = await child.record_turn(chat("Another second turn", "Yes"), turn_key="key-2")
    assert (again.turn_no, again.repeated) == (2, True)
    assert [turn.turn_key for turn in await child.turns()] == ["key-1", "key-2"]
    assert [turn.turn_key for turn in await root.turns()] == ["key-1", "key-2", "key-3"]


async def test_turns_are_read_across_the_fork(root: Branch):
    await _record(root, 6)
    child = await root.fork("child", at_turn=4)
    await _record(child, 4)
    assert [turn.turn_no for turn in await child.turns(3, 6)] == [3, 4, 5, 6]
    assert [turn.turn_no for turn in await child.turns(7)] == [7, 8]
    assert await child.turns(9) == ()


async def test_a_prompt_of_an_earlier_turn_is_none_to_record_with(root: Branch):
    await _record(root, 5)
    early = await root.prepare("And?", budget=AMPLE, at_turn=3)
    assert early and early.manifest.head_turn == 3
    with pytest.raises(HeadConflict, match="at turn 5, not at turn 3"):
        await root.record_turn(chat("And?", "So"), prepared=early)
    newest = await root.prepare("And?", budget=AMPLE, at_turn=5)
    assert newest and newest == await root.prepare("And?", budget=AMPLE)
    turn = await root.record_turn(chat("And?", "So"), prepared=newest)
    assert turn.turn_no == 6


async def test_a_fork_takes_the_prompt_that_was_made_of_its_turn_and_no_other(
    client: ContextClient, root: Branch
):
    await _record(root, 5)
    at_4, at_5 = [await root.prepare("And?", budget=AMPLE, at_turn=n) for n in (4, 5)]
    assert at_4
    assert at_5
    await root.fork("child", at_turn=4)
    child = await client.find_branch("conversation", "child")
    with pytest.raises(InvalidArgument, match="another branch"):
        await child.record_turn(chat("And?", "So"), prepared=at_5)
    await child.record_turn(chat("And?", "So"), prepared=at_4)
    with pytest.raises(HeadConflict):
        await child.record_turn(chat("Again?", "No"), prepared=at_4)


async def test_a_restored_branch_goes_on_from_there_and_the_other_stays(root: Branch):
    await _record(root, 6)
    one, other = await root.restore(4), await root.restore(4)
    assert len({root.branch_id, one.branch_id, other.branch_id}) == 3
    assert one.fork_turn == other.fork_turn == 4 and one.parent_id == other.parent_id == "main"
    named = await one.restore(2, branch_id="named")
    assert (named.branch_id, named.parent_id) == ("named", one.branch_id)
    assert (await one.restore(2, branch_id="named")).branch_uuid == named.branch_uuid
    await one.record_turn(chat("Again", "Gladly"))
    assert [len(await branch.turns()) for branch in (root, one, other, named)] == [6, 5, 4, 2]


async def test_a_restored_branch_begins_at_a_turn_that_is_named(root: Branch):
    with pytest.raises(InvalidArgument, match="at_turn=None"):
        await root.restore(None)  # type: ignore[arg-type]


async def test_the_longest_id_can_be_restored(client: ContextClient):
    root = await client.open_branch("conversation", "ü" * 250)
    assert (await root.restore(0)).parent_id == root.branch_id


async def test_the_tree_lists_parents_before_their_children(root: Branch, client: ContextClient):
    await _record(root, 4)
    left = await root.fork("left", at_turn=2)
    right = await root.fork("right")
    await (await left.fork("left below", at_turn=1)).record_turn(numbered(2))
    await (await right.fork("right below")).fork("lowest")
    other = await client.open_branch("conversation", "another root")
    tree = await client.branches("conversation")
    assert [(one.branch_id, one.parent_id, one.fork_turn, one.head_turn) for one in tree] == [
        ("main", None, None, 4),
        ("another root", None, None, 0),
        ("left", "main", 2, 2),
        ("right", "main", 4, 4),
        ("left below", "left", 1, 2),
        ("right below", "right", 4, 4),
        ("lowest", "right below", 4, 4),
    ]
    assert tree[1].branch_uuid == other.branch_uuid and tree[0].last_turn_at is not None
    assert await client.branches("no such conversation") == ()


async def test_an_unknown_branch_cannot_be_forked(root: Branch, make_client: Any):
    stranger: ContextClient = await make_client(tenant="other")
    theirs = Branch(
        stranger._resources,
        "conversation",
        "main",
        await root._resources.branches.find("conversation", "main"),
        CompactionPolicy(),
    )
    with pytest.raises(UnknownBranch):
        await theirs.fork("child")
    with pytest.raises(UnknownBranch):
        await theirs.prepare("Hi", budget=AMPLE, at_turn=0)


async def test_an_open_run_goes_on_in_the_child_with_its_task(root: Branch, pool: Pool):
    await _record(root, 2)
    task = {"role": "user", "content": "Migrate every one of the 40 services, keep a log."}
    await root.record_turn([task, *exchange("a", "service 1 is done")], continues=True)
    for n in range(2, 12):
        await root.record_turn(exchange(f"c{n}", f"service {n} is done"), continues=True)
    child = await root.fork("child", at_turn=7)
    await root.record_turn([*exchange("z", "all done"), {"role": "assistant", "content": "Done"}])
    state = await child.inspect()
    assert (state.head_turn, state.open_run_turn) == (7, 3)
    assert (await root.inspect()).open_run_turn is None
    prepared = await child.prepare(None, budget=AMPLE)
    assert prepared and prepared.messages[-1] == result("c5", "service 5 is done")
    check_prompt(prepared, 7, child.policy)
    early = await root.prepare(None, budget=AMPLE, at_turn=7)
    assert early and early.messages == prepared.messages
    await child.record_turn(exchange("d", "service 6, otherwise"), continues=True)
    assert (await child.inspect()).open_run_turn == 3
    policy = child.policy.model_copy(update={"run_raw_tokens": 0})
    assert await compact_all(pool, child.branch_uuid, policy) == 1
    compacted = await child.prepare(None, budget=AMPLE)
    assert compacted and kinds(compacted).count("task") == 1
    assert [m for m in compacted.messages if m == task] == [task]
    await child.record_turn(chat("Stop here", "Stopped"))
    assert (await child.inspect()).open_run_turn is None


async def test_a_fork_before_a_run_or_after_it_has_none(root: Branch):
    await _record(root, 1)
    await root.record_turn([*chat("Do it", "On it"), *exchange("a", "1")], continues=True)
    await root.record_turn([*exchange("b", "2"), {"role": "assistant", "content": "Done"}])
    runs = [(await (await root.fork(f"{n}", at_turn=n)).inspect()).open_run_turn for n in range(4)]
    assert runs == [None, None, 2, None]


async def test_retrieval_finds_what_is_inherited_and_nothing_else(root: Branch, pool: Pool):
    await root.record_turn(chat("The inherited password hint is zebrafinch", "Noted"))
    await _record(root, 11)
    await compact_all(pool, root.branch_uuid)
    child, sibling = await root.fork("child"), await root.fork("sibling")
    for branch, bird in ((root, "kingfisher"), (child, "oystercatcher"), (sibling, "nightingale")):
        await branch.record_turn(chat(f"The hint is now {bird}", "Noted"))
        await _record(branch, 11)
        await compact_all(pool, branch.branch_uuid)
    birds = ["zebrafinch", "kingfisher", "oystercatcher", "nightingale"]
    for branch, seen in ((root, 1), (child, 2), (sibling, 3)):
        retrieved = {bird for bird in birds if await _retrieves(branch, bird)}
        assert retrieved == {"zebrafinch", birds[seen]}
        found = {bird for bird in birds if await branch.search(bird)}
        assert found == {"zebrafinch", birds[seen]}


async def _retrieves(branch: Branch, word: str) -> bool:
    prepared = await branch.prepare(f"What about {word}?", budget=AMPLE)
    assert prepared
    return "retrieved" in kinds(prepared) and word in json.dumps(prepared.messages[-2])


async def test_an_earlier_prompt_retrieves_what_a_fork_made_there_does(root: Branch, pool: Pool):
    """Though a word that was rare then is common by now."""
    rare = {3: "alphaword", 9: "betaword"}
    for turn in range(1, 121):
        word = rare.get(turn, "nothing") if turn < 19 else "alphaword"
        await root.record_turn(chat(f"About {word} number {turn}", f"It is {turn}."))
    await compact_all(pool, root.branch_uuid)
    for at_turn in (8, 20, 50):
        child = await root.fork(f"at {at_turn}", at_turn=at_turn)
        for asked in ("alphaword or betaword?", "alphaword", "number 7 betaword"):
            early = await root.prepare(asked, budget=AMPLE, at_turn=at_turn)
            forked = await child.prepare(asked, budget=AMPLE)
            assert early and forked
            assert early.messages == forked.messages
            assert early.manifest.blocks == forked.manifest.blocks
            if asked == "alphaword or betaword?":
                assert "retrieved" in kinds(early)


async def test_forking_is_one_statement(root: Branch, client: ContextClient):
    await _record(root, 12)
    await root.fork("warm")  # the driver reads type information once a connection
    statements: list[str] = []
    async with client._resources.pool.acquire() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    await root.fork("child", at_turn=9)
    await root.fork("child", at_turn=9)
    assert len(statements) == 2, statements


async def test_a_fork_touches_as_little_at_turn_20000_as_at_turn_10(
    root: Branch, pool: Pool, connection: Connection
):
    await _record(root, 10)
    await compact_all(pool, root.branch_uuid)
    await _lengthen(connection, root.branch_uuid)
    for at_turn in (10, LONG):
        await _touched(connection, root.branch_uuid, at_turn)  # reads the catalog, once
    near = await _touched(connection, root.branch_uuid, 10)
    far = await _touched(connection, root.branch_uuid, LONG)
    rows = await connection.fetch(
        "select fork_turn, checkpoint_turn, head_tokens from durable_context.branches"
        " where fork_turn is not null order by fork_turn"
    )
    assert {(row[0], row[1]) for row in rows} == {(10, 6), (LONG, LONG - 2)}
    assert far <= near + 10, (near, far)  # an index of so many rows may be a level deeper
    copied = await connection.fetchval(
        "select count(*) from durable_context.turns where branch_uuid <> $1", root.branch_uuid
    )
    assert copied == 0


async def _lengthen(connection: Connection, branch_uuid: UUID) -> None:
    """To turn 20,000, as if recorded and compacted two by two."""
    await connection.execute("set session_replication_role = replica")
    columns = [
        row[0]
        for row in await connection.fetch(
            "select column_name::text from information_schema.columns"
            " where table_schema = 'durable_context' and table_name = 'turns'"
            " and column_name not in ('turn_no', 'turn_key', 'head_tokens')"
        )
    ]
    names = ", ".join(columns)
    await connection.execute(
        f"insert into durable_context.turns (turn_no, turn_key, head_tokens, {names})"
        f" select n, n::text, n, {names} from durable_context.turns t, generate_series(11, $2) n"
        " where t.branch_uuid = $1 and t.turn_no = 10",
        branch_uuid,
        LONG,
    )
    await connection.execute(
        "insert into durable_context.checkpoints (tenant, branch_uuid, turn_no, parent_id,"
        " frontier, leaf_count, sections, ledger, text, token_count, token_usage)"
        " select tenant, branch_uuid, n, checkpoint_id, frontier, n / 2, sections, ledger, text,"
        " token_count, token_usage from durable_context.checkpoints, generate_series(12, $2, 2) n"
        " where branch_uuid = $1 and turn_no = 6",
        branch_uuid,
        LONG - 2,
    )
    await connection.execute(
        "update durable_context.branches set head_turn = $2, checkpoint_turn = $2 - 2"
        " where branch_uuid = $1",
        branch_uuid,
        LONG,
    )
    await connection.execute("reset session_replication_role")
    await connection.execute("vacuum analyze durable_context.turns, durable_context.checkpoints")


async def _touched(connection: Connection, branch_uuid: UUID, at_turn: int) -> int:
    """Pages that one fork reads or writes."""
    plan = await connection.fetchval(
        "explain (analyze, buffers, format json)"
        " select * from durable_context.fork_branch("
        f"'default', '{branch_uuid}', gen_random_uuid()::text, {at_turn}, 2)"
    )
    root = json.loads(plan)[0]["Plan"]
    return root["Shared Hit Blocks"] + root["Shared Read Blocks"]


async def test_a_branch_keeps_the_language_it_was_made_with(client: ContextClient):
    branch = await client.open_branch("c", text_search="german")
    assert (await client.open_branch("c")).branch_uuid == branch.branch_uuid
    assert (await client.open_branch("c", text_search="german")).branch_uuid == branch.branch_uuid
    with pytest.raises(InvalidArgument, match=r"'simple'; branch 'main' .* made with 'german'"):
        await client.open_branch("c", text_search="simple")


@pytest.mark.parametrize("text_search", ["klingon", "", "english; drop table x", 5])
async def test_an_unknown_language_is_refused_with_those_there_are(
    client: ContextClient, text_search: Any
):
    with pytest.raises(InvalidArgument, match=r"allowed are .*english, .*simple") as refused:
        await client.open_branch("c", text_search=text_search)
    assert repr(text_search) in str(refused.value)
    assert await client.branches("c") == ()
