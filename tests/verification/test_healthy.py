"""Nothing is found where nothing is wrong."""

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.verification.findings import Verified
from tests.compacting import compact_all
from tests.exports import POLICY, exported
from tests.turns import exchange, numbered
from tests.verification.conftest import told, verified


async def record(branch: Branch, first: int, last: int) -> None:
    for turn in range(first, last + 1):
        await branch.record_turn(numbered(turn))


def check(looked_at: list[Verified]) -> None:
    assert [finding for one in looked_at for finding in one.findings] == []
    assert sum(one.unverifiable for one in looked_at) == 0


async def test_a_tenant_without_branches_has_nothing_to_find(database_url: str):
    async with await ContextClient.connect(database_url, temporal=None, tenant="new") as client:
        assert [one.findings for one in await verified(client)] == [()]


async def test_a_branch_with_something_of_everything_and_its_fork_are_found_whole(
    client: ContextClient, branch: Branch, child: Branch
):
    check(await verified(client))
    one = await branch.verify()
    assert (one.conversation_id, one.branch_uuid) == ("harbour", branch.branch_uuid)
    assert (one.turns, one.nodes, one.checkpoints, one.contents) == (15, 8, 5, 7)
    other = await child.verify()
    assert (other.turns, other.nodes, other.checkpoints, other.contents) == (4, 3, 2, 0)
    assert await told(branch) == []


async def test_forks_of_forks_are_found_whole(client: ContextClient, pool: Pool):
    branch = await client.open_branch("conversation")
    for depth in range(6):
        await record(branch, 5 * depth + 1, 5 * depth + 5)
        await branch.put_artifact(f"notes {depth}", name="notes.txt")
        await compact_all(pool, branch.branch_uuid, POLICY)
        branch = await branch.fork(f"depth-{depth + 1}")
    empty = await branch.fork("empty", at_turn=0)
    await record(empty, 1, 9)
    await compact_all(pool, empty.branch_uuid, POLICY)
    await (await client.open_branch("no turns")).fork("no turns")
    looked_at = await verified(client)
    check(looked_at)
    assert len(looked_at) == 13


async def test_imported_branches_are_found_whole(client: ContextClient):
    for name in ("main", "child"):
        lines = await exported(client, "harbour", name)
        await client.import_branch(lines, conversation_id=f"copy of {name}")
    check(await verified(client))


async def test_a_long_run_is_found_whole(client: ContextClient, pool: Pool):
    branch = await client.open_branch("run")
    await branch.record_turn(
        [{"role": "user", "content": "Fix it."}, *exchange("c0", "ok")], continues=True
    )
    for step in range(1, 30):
        output = f"step {step}: " + "a line of output\n" * 300
        await branch.record_turn(exchange(f"c{step}", output), continues=True)
    await compact_all(pool, branch.branch_uuid, CompactionPolicy(run_raw_tokens=500))
    check(await verified(client))
    one = await branch.verify()
    assert one.contents == 29 and one.checkpoints > 3
