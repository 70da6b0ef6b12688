"""What retention leaves is a whole: verified, exported and compacted as before."""

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.replacing import replace_node
from tests.retention.aged import Connection, at_once, checked_gc, gc, shown, talk
from tests.turns import numbered


@pytest.fixture
async def root(client: ContextClient, pool: Pool, connection: Connection) -> Branch:
    """A branch with forks, of which retention has taken what it can."""
    root = await talk(client, pool)
    await root.fork("before")
    await replace_node(connection, root, 25, "Other words.")
    await root.fork("after", at_turn=20)
    for turn in range(33, 50):
        await root.record_turn(numbered(turn))
    await compact_all(pool, root.branch_uuid)
    await root.revert(36)
    await compact_all(pool, root.branch_uuid)
    assert (await checked_gc(client, at_once(checkpoints_kept=1))).total > 5
    return root


async def test_verification_finds_nothing(client: ContextClient, root: Branch):
    found = [finding async for verified in client.verify() for finding in verified.findings]
    assert found == []
    await gc(client, at_once(conversations_kept=0))
    assert [verified async for verified in client.verify() if verified.findings] == []


async def test_an_export_is_imported_with_the_same_prompt(client: ContextClient, root: Branch):
    for branch_id in ("main", "before", "after"):
        lines = [line async for line in client.export_branch("talk", branch_id)]
        copy = await client.import_branch(lines, conversation_id=f"copy of {branch_id}")
        assert await shown(copy) == await shown(await client.find_branch("talk", branch_id))


async def test_compaction_goes_on_in_every_branch(client: ContextClient, pool: Pool, root: Branch):
    for branch_id in ("main", "before", "after"):
        branch = await client.find_branch("talk", branch_id)
        head = (await branch.inspect()).head_turn
        for turn in range(head + 1, head + 40):
            await branch.record_turn(numbered(turn))
        assert await compact_all(pool, branch.branch_uuid) >= 6
        assert await branch.search("shipment SHP-0003")
    assert (await checked_gc(client, at_once(checkpoints_kept=1))).total > 0


async def test_it_can_be_reverted_to_what_is_left_and_no_further(
    client: ContextClient, pool: Pool, root: Branch
):
    left = [checkpoint.turn_no for checkpoint in await root.checkpoints()]
    assert await root.revert(left[0]) is not None
    assert await root.revert(0) is None
    assert await compact_all(pool, root.branch_uuid) == 7
    assert b"SHP-0049" in await shown(root)
