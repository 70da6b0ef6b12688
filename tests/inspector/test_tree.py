"""The tree of a branch: nodes open to what they were made of, leaves to turns, and these to their
messages.
"""

import re
from html import unescape
from uuid import UUID, uuid4

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.errors import SummaryNotFound
from durable_context.inspector.links import link
from durable_context.looks.nodes import Nodes
from tests.compacting import compact_all
from tests.inspector.conftest import Site
from tests.replacing import replace_node
from tests.turns import chat, numbered

PART = {"HX-Request": "true"}


async def grown(
    client: ContextClient, pool: Pool, turns: int, policy: CompactionPolicy | None = None
) -> Branch:
    branch = await client.open_branch("c")
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid, policy)
    return branch


def opened_by(html: str) -> list[str]:
    """Addresses that the elements of a part load when they are opened."""
    return [unescape(address) for address in re.findall(r'<details[^>]* hx-get="([^"]*)"', html)]


async def part(site: Site, address: str) -> str:
    answer = await site.http.get(address, headers=PART)
    assert answer.status_code == 200 and "<html" not in answer.text
    return answer.text


async def test_a_node_opens_to_its_children_a_leaf_to_turns_a_turn_to_messages(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    await grown(client, pool, 30)
    frontier = opened_by(await site.get("/branch", conversation="c"))
    assert len(frontier) == 1
    leaves = opened_by(await part(site, frontier[0]))
    assert len(leaves) == 4
    leaf = await part(site, leaves[1])
    turns = opened_by(leaf)
    assert re.findall(r"turn=(\d+)", " ".join(turns)) == [*"789", "10", "11", "12"]
    said = await part(site, turns[0])
    assert "Where is shipment SHP-0007?" in said and "left the depot in Rotterdam" in said


async def test_without_scripts_the_same_address_is_a_page_with_the_node_open(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await grown(client, pool, 30)
    leaf = next(one for one in await branch.summaries() if one.from_turn == 7)
    address = link("/branch/node", id=leaf.summary_id, conversation="c", branch="main")
    html = (await site.http.get(address)).text
    assert "<html" in html and "Inside" in html
    above = next(one for one in await branch.summaries() if one.level == 1)
    assert f"id={above.summary_id}" in html and 'href="/branch/turn?turn=7&amp;' in html
    overview = await site.get("/branch", conversation="c")
    assert f'<a href="/branch/node?id={above.summary_id}&amp;' in overview


async def test_a_leaf_of_many_turns_shows_them_in_pages(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await grown(client, pool, 102, CompactionPolicy(segment_turns=100))
    (leaf,) = await branch.summaries()
    address = link("/branch/node", id=leaf.summary_id, conversation="c", branch="main")
    first = await part(site, address)
    assert len(opened_by(first)) == 50 and "More turns, from 51 to 100" in first
    rest = await part(site, address + "&from=51")
    assert len(opened_by(rest)) == 50 and "More turns" not in rest and "made by" not in rest
    assert "turn=100&" in opened_by(rest)[-1]
    assert "More turns" not in (await site.http.get(address + "&from=51")).text
    for first_turn in (0, 101):
        refused = await site.http.get(address + f"&from={first_turn}")
        assert refused.status_code == 400 and "from 1 to 100" in refused.text


async def test_what_was_replaced_is_shown_on_demand(
    site: Site,
    client: ContextClient,
    pool: Pool,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branch = await grown(client, pool, 9)
    (old,) = await branch.summaries()
    fork = await branch.fork("fork")
    new = await replace_node(connection, branch, 1, "Told anew, <b>better</b>.")
    query = {"conversation": "c", "branch": "main"}
    node = await site.get("/branch/node", id=new, **query)
    assert "All 2 that stood here" in node and old.text.split("\n")[0] not in unescape(node)
    shown = await site.get("/branch/node/revisions", id=new, **query)
    assert shown.index("Told anew, &lt;b&gt;better&lt;/b&gt;.") < shown.index("superseded")
    assert old.text in unescape(shown)
    replaced = await site.get("/branch/node", id=old.summary_id, **query)
    assert "superseded" in replaced and not re.findall(r"turn=\d", replaced)
    of_fork = await fork.summary(old.summary_id)
    assert of_fork.state == "current" and await fork.revisions(of_fork) == (of_fork,)


async def test_a_node_of_another_branch_or_tenant_is_not_found(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await grown(client, pool, 9)
    (leaf,) = await branch.summaries()
    other = await client.open_branch("d")
    assert str(leaf.summary_id) in await site.get(
        "/branch/node", expect=404, id=leaf.summary_id, conversation="d"
    )
    assert "sees no summary" in await site.get(
        "/branch/node/revisions", expect=404, id=uuid4(), conversation="c"
    )
    with pytest.raises(SummaryNotFound):
        await other.summary(leaf.summary_id)
    with pytest.raises(SummaryNotFound):
        await Nodes(pool, "other", branch.branch_uuid).find(leaf.summary_id)
    assert await Nodes(pool, "other", branch.branch_uuid).above(-1, 1, 1) == ()


@pytest.mark.parametrize("summary_id", ["", "x", "1", str(UUID(int=0))[:-1] + "'"])
async def test_an_id_that_is_none_is_named(
    site: Site, client: ContextClient, summary_id: str
) -> None:
    await client.open_branch("c")
    shown = await site.get("/branch/node", expect=400, id=summary_id, conversation="c")
    assert "it must be the id of a summary" in shown


async def test_nodes_above_a_turn_are_found_from_the_leaf_up(
    client: ContextClient, pool: Pool
) -> None:
    branch = await grown(client, pool, 30)
    above = await branch.summaries_of_turn(8)
    assert [(one.level, one.from_turn, one.to_turn) for one in above] == [(0, 7, 12), (1, 1, 24)]
    assert await branch.summaries_above(above[0]) == above[1:]
    assert [one.from_turn for one in await branch.summaries_below(above[1])] == [1, 7, 13, 19]
    assert await branch.summaries_below(above[0]) == ()


async def test_what_a_node_says_is_text_and_nothing_else(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await client.open_branch("c")
    for turn in range(9):
        hostile = f"<script>alert({turn})</script> \x1b[31mred\x1b[0m \u202eABC-{turn}9 onload=x"
        await branch.record_turn(chat(hostile, f'<img src=x onerror="a()"> fine ABC-{turn}9.'))
    await compact_all(pool, branch.branch_uuid)
    (leaf,) = await branch.summaries()
    for html in (
        await site.get("/branch", conversation="c"),
        await site.get("/branch/node", id=leaf.summary_id, conversation="c"),
        await site.get("/branch/turns", conversation="c"),
    ):
        assert "<script>alert" not in html and "<img" not in html
        assert "\x1b" not in html and "\u202e" not in html
