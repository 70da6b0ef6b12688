"""The list of branches."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from html import unescape

from temporalio.client import Client

from durable_context import Branch, ContextClient
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import NodeRange
from durable_context.database import Pool
from durable_context.inspector.branches_page import SHOWN
from tests.compaction.scripted import ScriptedSummarizer
from tests.default_worker import default_worker
from tests.inspector.conftest import Site
from tests.turns import chat, numbered

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m'\"&javascript:x"


async def recorded(client: ContextClient, conversation: str, turns: int) -> Branch:
    branch = await client.open_branch(conversation)
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    return branch


async def begun(pool: Pool, branch: Branch) -> object:
    store = CompactionStore(pool, "default", branch.branch_uuid)
    return await store.join_compaction(
        NodeRange(level=0, from_turn=1, to_turn=6), 600, "turn", RunId()
    )


def conversations(shown: str) -> list[str]:
    """Of the rows of the table."""
    return [
        unescape(name)
        for name in re.findall(r'<td class="id"><a href="/conversation[^>]*>(.*?)</a>', shown)
    ]


async def test_without_branches_it_says_how_the_first_is_made(site: Site) -> None:
    shown = await site.get("/")
    assert "no branches of this tenant yet" in shown and "record_turn" in shown
    assert "<table" not in shown


async def test_branches_are_listed_the_furthest_behind_first(
    site: Site, client: ContextClient
) -> None:
    for conversation, turns in (("few", 3), ("many", 12), ("none", 0)):
        await recorded(client, conversation, turns)
    shown = await site.get("/")
    assert conversations(shown) == ["many", "few", "none"]
    assert "3 branches, 15 turns" in shown
    assert "10 turns, " in shown and "1 turn, " in shown


async def test_filters_and_a_beginning_choose_together(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    for conversation, turns in (("order-1", 1), ("order-10", 9), ("order-2", 9), ("Other", 9)):
        await recorded(client, conversation, turns)
    await (await client.find_branch("order-2")).pause("new <model>")
    await begun(pool, await client.find_branch("Other"))
    assert set(conversations(await site.get("/", only="behind"))) == {
        "order-10",
        "order-2",
        "Other",
    }
    assert conversations(await site.get("/", only="paused")) == ["order-2"]
    assert conversations(await site.get("/", only="running")) == ["Other"]
    found = await site.get("/", q="order-1")
    assert set(conversations(found)) == {"order-1", "order-10"}
    assert "has exactly this id" in found
    assert conversations(await site.get("/", q="order-1", only="behind")) == ["order-10"]
    assert "new &lt;model&gt;" in await site.get("/", only="paused")
    for query in ({"only": "failed"}, {"q": "nothing<b>"}, {"q": "%"}):
        shown = await site.get("/", **query)
        assert conversations(shown) == [] and "has exactly" not in shown and "<b>" not in shown


async def test_what_is_under_way_or_failed_is_told(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    running, failed = [await recorded(client, name, 9) for name in ("running", "failed")]
    await begun(pool, running)
    await pool.execute(
        "update durable_context.compactions set status = 'failed', error = $2, finished_at = now()"
        " where compaction_id = $1",
        await begun(pool, failed),
        HOSTILE,
    )
    shown = await site.get("/")
    assert re.search(r"compacting turns 1–6 \(reason turn\) since 20\d\d-", shown)
    assert 'hx-get="/branch/progress?conversation=running&amp;branch=main"' in shown
    assert re.search(r"failed 20\d\d-.* at turns 1–6: &lt;script&gt;", shown)
    assert "<script>alert" not in shown


async def test_a_paused_tenant_is_told(site: Site, client: ContextClient) -> None:
    await client.pause("the model moves")
    shown = await site.get("/")
    assert "All of this tenant is paused" in shown and "the model moves" in shown


async def test_ids_are_shown_as_text_whatever_they_are(site: Site, client: ContextClient) -> None:
    branch = await client.open_branch(HOSTILE, HOSTILE)
    await branch.record_turn(chat("a", "b"))
    assert not re.search("[\u202e\x1b]", await site.get("/"))
    for shown in (await site.get("/"), await site.get("/", q=HOSTILE)):
        assert "<script>alert" not in shown
        [row] = conversations(shown)
        assert row == HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\x1b")
        [path] = re.findall(r'href="(/branch\?[^"]*)"', shown)
        assert (await site.http.get(unescape(path))).status_code == 200


async def test_pages_follow_each_other(site: Site, client: ContextClient) -> None:
    for number in range(SHOWN + 3):
        await client.open_branch(f"c{number}")
    first = await site.get("/", q="c")
    [following] = re.findall(r'href="(/\?[^"]*after=[^"]*)"', first)
    second = (await site.http.get(unescape(following))).text
    both = conversations(first) + conversations(second)
    assert (len(conversations(first)), len(both), len(set(both))) == (SHOWN, SHOWN + 3, SHOWN + 3)
    assert "after=" not in second and "q=c" in following


async def test_bad_input_is_named(site: Site) -> None:
    for query, said in (
        ({"only": "<b>late"}, "allowed are &#39;behind&#39;"),
        ({"after": "x"}, "after="),
        ({"q": "x" * 501}, "500 are allowed"),
        ({"q": "\0"}, "without NUL"),
    ):
        shown = await site.get("/", expect=400, **query)
        assert said in shown and "<b>" not in shown


async def test_how_far_a_compaction_is_shows_while_it_is_under_way_alone(
    make_site: Callable[..., Site],
    make_client: Callable[..., Awaitable[ContextClient]],
    client: ContextClient,
    temporal: Client,
    pool: Pool,
) -> None:
    await recorded(client, "orders", 9)
    asking = await make_client(temporal=temporal)
    site = make_site(client=asking)
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    async with default_worker(temporal, pool, summarizer):
        branch = await asking.find_branch("orders")
        compacting = asyncio.create_task(branch.compact())
        await summarizer.arrived.wait()
        assert "compacting turns 1–6 (reason request) since" in await site.get("/", only="running")
        shown = await site.get("/branch/progress", conversation="orders")
        assert "summarize turns 1–6" in shown and "0 passes done, checkpoint at turn 0" in shown
        summarizer.gate.set()
        await compacting
        assert conversations(await site.get("/", only="running")) == []
    shown = await make_site().get("/branch/progress", conversation="orders")
    assert shown.strip() == ""


async def test_a_part_that_cannot_be_shown_is_a_line_that_tries_again(site: Site) -> None:
    asked = "/branch/node?conversation=%3Cb%3E&id=1"
    answer = await site.http.get(asked, headers={"HX-Request": "true"})
    assert answer.status_code == 404 and answer.text.count("<p") == 1
    assert "<html" not in answer.text and "<b>" not in answer.text and "&lt;b&gt;" in answer.text
    assert 'hx-get="/branch/node?conversation=%3Cb%3E&amp;id=1"' in answer.text
    whole = await site.get("/", expect=200)
    assert '{"code": "[45]..", "swap": true, "error": true}' in whole
