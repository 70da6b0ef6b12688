"""The page of one branch."""

from durable_context import ContextClient
from tests.inspector.conftest import Site
from tests.turns import numbered


async def test_a_branch_is_found_by_whatever_id_it_has(site: Site, client: ContextClient) -> None:
    conversation = "a/b?c=<d>&e'\"% ü"
    branch = await client.open_branch(conversation, "x/y")
    await branch.record_turn(numbered(1))
    shown = await site.get("/branch", conversation=conversation, branch="x/y")
    assert "1 turns" in shown and "a/b?c=&lt;d&gt;&amp;e&#39;&#34;% ü" in shown
    assert "<d>" not in shown


async def test_a_branch_that_is_not_there_is_named(site: Site) -> None:
    shown = await site.get("/branch", expect=404, conversation="nowhere")
    assert "nowhere" in shown
