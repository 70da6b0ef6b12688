"""What branches find of their ancestors' turns, and that nothing else reaches them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient, PreparedContext
from durable_context.database import Pool
from tests.compacting import compact_all, compact_once
from tests.conftest import database_name
from tests.retrieving import asked, blocks, converse, found, remembered, retrieved
from tests.turns import chat

SAID = {
    4: chat("The vault key is under the anvil.", "Under the anvil, noted."),
    9: chat("Aunt Zuleika collects astrolabes.", "Astrolabes, how fine."),
    21: chat("The anvil was sold to Gustavo.", "Gustavo has the anvil now."),
    27: chat("Zuleika broke an astrolabe.", "What a loss of an astrolabe."),
}
ANVIL = "Where is that anvil, and who has it?"
ASTROLABE = "What of the astrolabes of Zuleika?"

MakeClient = Callable[..., Awaitable[ContextClient]]


@pytest.fixture
async def parent(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("family")
    await remembered(branch, pool, 44, SAID)
    return branch


async def test_a_child_finds_its_parents_turns_up_to_the_fork(parent: Branch, pool: Pool):
    child = await parent.fork("child", at_turn=18)
    text = await found(child, ANVIL)
    assert "Under the anvil" in text and "Gustavo" not in text
    await remembered(child, pool, 40, {30: chat("A new anvil came.", "From Tula, the anvil.")})
    await converse(child, 60, start=41)
    await compact_all(pool, child.branch_uuid)
    text = await found(child, ANVIL)
    assert "Under the anvil" in text and "Gustavo" not in text


async def test_a_child_finds_its_own_turns_beside_its_parents(parent: Branch, pool: Pool):
    child = await parent.fork("child", at_turn=18)
    await converse(child, 40, {25: chat("A new anvil came.", "An anvil from Tula.")}, start=19)
    await compact_all(pool, child.branch_uuid)
    text = await found(child, ANVIL)
    assert "Under the anvil" in text and "An anvil from Tula." in text
    assert "Tula" not in await found(parent, ANVIL)


async def test_a_fork_inside_a_leaf_finds_no_turn_behind_it(parent: Branch):
    """The leaf of turns 19 to 24 is not the child's: it would tell of turn 21."""
    for at_turn in (20, 21, 24, 26):
        child = await parent.fork(f"at {at_turn}", at_turn=at_turn)
        prepared = await asked(child, ANVIL)
        assert "Gustavo" not in retrieved(prepared) or at_turn > 22
        assert all(to is not None and to <= at_turn for _, to in blocks(prepared))


async def test_the_childs_prompt_stays_as_it_is_whatever_the_parent_does(
    client: ContextClient, pool: Pool
):
    parent = await client.open_branch("family")
    await converse(parent, 30, SAID)
    child = await parent.fork("child")
    behind = [await asked(child, message) for message in (ANVIL, ASTROLABE)]
    await compact_all(pool, parent.branch_uuid)
    assert [await asked(child, message) for message in (ANVIL, ASTROLABE)] == behind

    second = await parent.fork("second")
    before = [await asked(second, message) for message in (ANVIL, ASTROLABE)]
    assert all(blocks(prepared) for prepared in before)
    await converse(parent, 40, {34: SAID[4], 35: SAID[9]}, start=31)
    assert [await asked(second, message) for message in (ANVIL, ASTROLABE)] == before
    await compact_once(pool, parent.branch_uuid, parent.policy)
    await converse(parent, 70, {44: SAID[4], 45: SAID[9]}, start=41)
    await compact_all(pool, parent.branch_uuid)
    await parent.put_artifact("astrolabe, anvil, Zuleika", name="anvils.txt")
    await parent.record_turn(chat("An anvil", "An astrolabe of Zuleika"))
    assert [await asked(second, message) for message in (ANVIL, ASTROLABE)] == before


async def test_a_parent_that_compacts_what_its_child_has_compacted_changes_nothing(
    client: ContextClient, pool: Pool
):
    parent = await client.open_branch("family")
    await converse(parent, 30, SAID)
    for _ in range(2):
        await compact_once(pool, parent.branch_uuid, parent.policy)
    children = [await parent.fork(f"child {n}") for n in range(4)]
    for child in children:
        await converse(child, 40, start=31)
        await compact_all(pool, child.branch_uuid)
    before = [await asked(child, ANVIL) for child in children]
    assert all("Gustavo" in retrieved(prepared) for prepared in before)
    await converse(parent, 40, start=31)
    await compact_all(pool, parent.branch_uuid)
    assert [await asked(child, ANVIL) for child in children] == before


async def test_siblings_do_not_see_each_other(parent: Branch, pool: Pool):
    one, other = await parent.fork("one", at_turn=12), await parent.fork("other", at_turn=12)
    alone = await asked(other, ANVIL)
    await converse(one, 30, {16: chat("The anvil glows.", "The anvil is hot.")}, start=13)
    await compact_all(pool, one.branch_uuid)
    assert await asked(other, ANVIL) == alone
    await converse(other, 30, {17: chat("The anvil rusts.", "Oil the anvil.")}, start=13)
    await compact_all(pool, other.branch_uuid)
    for branch, own, foreign in ((one, "glows", "rusts"), (other, "rusts", "glows")):
        text = await found(branch, ANVIL)
        assert own in text and foreign not in text and "Under the anvil" in text


async def test_a_grandchild_finds_what_each_ancestor_said_before_its_fork(
    parent: Branch, pool: Pool
):
    child = await parent.fork("child", at_turn=16)
    await converse(child, 40, {20: chat("The anvil glows.", "Hot!")}, start=17)
    await compact_all(pool, child.branch_uuid)
    grandchild = await child.fork("grandchild", at_turn=30)
    await converse(grandchild, 60, {34: chat("The anvil rusts.", "Oil it.")}, start=31)
    await compact_all(pool, grandchild.branch_uuid)
    await converse(child, 60, {44: chat("The anvil floats.", "How?")}, start=41)
    await compact_all(pool, child.branch_uuid)
    text = await found(grandchild, ANVIL)
    assert all(said in text for said in ("under the anvil", "glows", "rusts"))
    assert "Gustavo" not in text and "floats" not in text


@pytest.mark.parametrize("at_turn", [0, 3, 7, 8, 13, 20, 26, 33, 43, 44])
async def test_at_turn_gives_what_a_fork_made_there_gets(parent: Branch, at_turn: int):
    child = await parent.fork(f"at {at_turn}", at_turn=at_turn)
    for message in (ANVIL, ASTROLABE, "And the second one?", "hello"):
        here = await asked(parent, message, at_turn=at_turn)
        there = await asked(child, message)
        assert here.messages == there.messages
        assert here.manifest.blocks == there.manifest.blocks


async def test_at_turn_of_a_fork_reaches_back_into_its_parent(parent: Branch, pool: Pool):
    child = await parent.fork("child", at_turn=30)
    await converse(child, 50, start=31)
    await compact_all(pool, child.branch_uuid)
    for at_turn in (15, 29, 30, 31, 40):
        second = await child.fork(f"at {at_turn}", at_turn=at_turn)
        here = await asked(child, ANVIL, at_turn=at_turn)
        assert here.messages == (await asked(second, ANVIL)).messages
        assert "Under the anvil" in retrieved(here)


async def test_tenants_find_nothing_of_each_other(make_client: MakeClient, pool: Pool):
    ours, theirs = await make_client(tenant="ours"), await make_client(tenant="theirs")
    branch = await ours.open_branch("family")
    other = await theirs.open_branch("family")
    await converse(branch, 30, SAID)
    await converse(other, 30, {4: chat("The anvil is gilded.", "A gilded anvil.")})
    for tenant, one in (("ours", branch), ("theirs", other)):
        while await compact_once(pool, one.branch_uuid, CompactionPolicy(), tenant):
            pass
    text, their_text = await found(branch, ANVIL), await found(other, ANVIL)
    assert "Gustavo" in text and "gilded" not in text
    assert "gilded" in their_text and "Gustavo" not in their_text


async def test_the_same_question_gets_the_same_bytes_from_everyone(
    parent: Branch, make_client: MakeClient
):
    async def everyone(message: str) -> list[PreparedContext]:
        second = await make_client()
        there = await second.find_branch("family")
        return [await asked(one, message) for one in (parent, parent, there)]

    for message in (ANVIL, ASTROLABE, "And then?", "garden piano choir fence bicycle tax"):
        first, *others = await everyone(message)
        assert all(other == first for other in others)
        assert all(other.messages == first.messages for other in others)


async def test_case_and_spaces_of_a_question_do_not_matter(parent: Branch):
    plain = retrieved(await asked(parent, "where is the anvil of gustavo"))
    assert plain
    for message in ("WHERE IS THE ANVIL OF GUSTAVO", " where  is\tthe\n\nanvil of gustavo  "):
        assert retrieved(await asked(parent, message)) == plain


@pytest.mark.parametrize("without", ["hashagg", "sort", "nestloop", "hashjoin", "indexonlyscan"])
async def test_what_ranks_alike_keeps_its_order_whatever_the_plan(
    client: ContextClient, make_client: MakeClient, pool: Pool, database_url: str, without: str
):
    branch = await client.open_branch("echo")
    same = {turn: chat("The anvil rings.", "It does.") for turn in range(3, 60, 12)}
    await converse(branch, 62, same, each=timedelta(0))
    await compact_all(pool, branch.branch_uuid)
    first = await asked(branch, ANVIL)
    assert len(blocks(first)) == 3
    await pool.execute(f"alter database {database_name(database_url)} set enable_{without} = off")
    another = await make_client()
    assert await asked(await another.find_branch("echo"), ANVIL) == first
