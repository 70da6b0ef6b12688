"""`durable-context revert`: what it does, what it only says, and how it ends."""

from uuid import uuid4

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.cli.running import Run
from tests.compacting import compact_all
from tests.compaction.test_compactor import record


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("orders")
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    return branch


async def test_it_goes_back_and_says_what_was_rejected(
    durable_context: Run, branch: Branch
) -> None:
    first = (await branch.checkpoints())[0]
    ended = await durable_context("revert", "orders", "--to", "6", "--because", "[red]wrong\x1b")
    assert ended.code == 0, ended.errors
    assert ended.out.splitlines() == [
        "The branch went back from turn 18 to the checkpoint of turn 6.",
        "  2 summaries rejected",
        "  2 checkpoints rejected",
        "Turns 7-20 wait now: the next turn or catch-up compacts what of them is due again."
        " `durable-context pause` puts that off; `durable-context compact --focus` makes other"
        " summaries of them.",
    ]
    assert await branch.checkpoints() == (first,)
    shown = await durable_context("events", "orders")
    assert "reverted" in shown.out and "because [red]wrong" in shown.out
    again = await durable_context("revert", "orders", "--to", str(first.checkpoint_id))
    assert again.out == "The branch stands at the checkpoint of turn 6 already.\n"
    none = await durable_context("revert", "orders", "--to", "0", "--json")
    assert none.figures["checkpoint_id"] is None and none.figures["to_turn"] == 0
    assert await branch.checkpoints() == ()


async def test_a_dry_run_only_says_what_it_would_do(durable_context: Run, branch: Branch) -> None:
    before = await branch.inspect()
    ended = await durable_context("revert", "orders", "--to", "12", "--dry-run")
    assert ended.code == 0, ended.errors
    assert ended.out.startswith("The branch would go back from turn 18 to the checkpoint of turn 1")
    as_json = await durable_context("revert", "orders", "--to", "12", "--dry-run", "--json")
    assert as_json.figures == {
        "from_turn": 18,
        "to_turn": 12,
        "checkpoint_id": str(before.checkpoints[1]),
        "nodes_rejected": 1,
        "drafts_rejected": 0,
        "checkpoints_rejected": 1,
        "restored": 0,
        "compactions_failed": 0,
        "changes": True,
        "dry_run": True,
    }
    after = await branch.inspect()
    assert (after.checkpoint, after.frontier) == (before.checkpoint, before.frontier)


async def test_what_cannot_be_gone_back_to_is_said(durable_context: Run, branch: Branch) -> None:
    for wrong in ("six", "-1", "1.5", "6" * 11, ""):
        ended = await durable_context("revert", "orders", f"--to={wrong}")
        assert ended.code == 2 and "neither the turn of a checkpoint" in ended.errors
    for missing in ("7", str(uuid4())):
        ended = await durable_context("revert", "orders", "--to", missing)
        assert ended.code == 2
        assert ended.errors.startswith(f"durable-context: to={missing}: the branch has no")
        assert "allowed are turns 0, 6, 12, 18" in ended.errors
    ended = await durable_context("revert", "nobody", "--to", "6")
    assert ended.code == 1 and "has no branch" in ended.errors
    assert (await durable_context("revert", "orders")).code == 2
