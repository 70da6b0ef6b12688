"""`durable-context branches`: the tree of a conversation."""

from durable_context import ContextClient
from tests.cli.running import Run
from tests.turns import numbered


async def test_branches_are_shown_as_the_tree_they_form(
    durable_context: Run, client: ContextClient
):
    main = await client.open_branch("orders")
    for turn in range(1, 5):
        await main.record_turn(numbered(turn))
    idea = await main.fork("idea", at_turn=2)
    await idea.record_turn(numbered(3))
    await idea.fork("detail")
    await main.fork("[red]other\x1b[31m", at_turn=0)
    shown = await durable_context("branches", "orders")
    assert shown.code == 0, shown.errors
    assert [line.split(" · last turn")[0] for line in shown.out.splitlines()] == [
        "orders: 4 branches",
        "main · head 4 · checkpoint 0",
        "├── idea · forked at turn 2 · head 3 · checkpoint 0",
        "│   └── detail · forked at turn 3 · head 3 · checkpoint 0",
        r"└── [red]other\x1b[31m · forked at turn 0 · head 0 · checkpoint 0",
    ]


async def test_json_holds_parents_before_their_children(
    durable_context: Run, client: ContextClient
):
    main = await client.open_branch("orders")
    idea = await main.fork("idea")
    shown = (await durable_context("branches", "orders", "--json")).figures
    assert shown["conversation_id"] == "orders"
    assert [(one["branch_id"], one["parent_id"]) for one in shown["branches"]] == [
        ("main", None),
        ("idea", "main"),
    ]
    assert shown["branches"][1]["branch_uuid"] == str(idea.branch_uuid)
    assert shown["branches"][1]["fork_turn"] == 0


async def test_a_conversation_that_is_not_there_is_an_error(
    durable_context: Run, client: ContextClient
):
    await client.open_branch("orders")
    for arguments in (("nowhere",), ("orders", "--tenant", "other")):
        ended = await durable_context("branches", *arguments)
        assert ended.code == 1
        assert f"has no conversation {arguments[0]!r}" in ended.errors
        assert ended.errors.count("\n") == 1
