"""`durable-context checkpoints` and `summaries`: the history of a branch, reverts included."""

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.cli.running import Run
from tests.compacting import compact_all
from tests.compaction.test_compactor import record


async def _reverted(client: ContextClient, pool: Pool) -> Branch:
    """Turns 7 to 12 were summarized, rejected, and summarized again."""
    branch = await client.open_branch("orders")
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await branch.revert(6)
    await compact_all(pool, branch.branch_uuid)
    return branch


async def test_checkpoints_are_listed_with_what_was_rejected(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    branch = await _reverted(client, pool)
    ended = await durable_context("checkpoints", "orders", "--json")
    listed = [
        (one["turn_no"], one["revision"], one["state"]) for one in ended.figures["checkpoints"]
    ]
    assert listed == [(6, 1, "current"), (12, 1, "rejected"), (12, 2, "current")]
    only = await durable_context("checkpoints", "orders", "--current", "--json")
    current = [one["checkpoint_id"] for one in only.figures["checkpoints"]]
    assert current == [str(one.checkpoint_id) for one in await branch.checkpoints()]
    shown = await durable_context("checkpoints", "orders")
    assert shown.code == 0 and "rejected" in shown.out
    assert all(one["checkpoint_id"] in shown.out for one in ended.figures["checkpoints"])


async def test_summaries_are_listed_with_what_was_rejected(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    branch = await _reverted(client, pool)
    ended = await durable_context("summaries", "orders", "--json")
    listed = [
        (one["from_turn"], one["to_turn"], one["state"]) for one in ended.figures["summaries"]
    ]
    assert listed == [(1, 6, "current"), (7, 12, "rejected"), (7, 12, "current")]
    only = await durable_context("summaries", "orders", "--current", "--json")
    current = [one["summary_id"] for one in only.figures["summaries"]]
    assert current == [str(one.summary_id) for one in await branch.summaries()]
    shown = await durable_context("summaries", "orders")
    assert shown.code == 0 and shown.out.count("7–12") == 2


async def test_a_fork_lists_what_it_sees_of_its_parent(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    branch = await client.open_branch("orders")
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await branch.fork("kept")
    await branch.revert(6)
    ended = await durable_context("checkpoints", "orders", "--branch", "kept", "--json")
    listed = [(one["turn_no"], one["state"]) for one in ended.figures["checkpoints"]]
    assert listed == [(6, "current"), (12, "current")]


async def test_a_branch_that_is_not_compacted_has_none(
    durable_context: Run, client: ContextClient
) -> None:
    await client.open_branch("orders")
    assert (await durable_context("checkpoints", "orders")).out == "no checkpoints\n"
    assert (await durable_context("summaries", "orders")).out == "no summaries\n"
