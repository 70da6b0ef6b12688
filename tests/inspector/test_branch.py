"""The page of one branch: its figures, lineage, frontier and what happened last."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.lag import is_due
from durable_context.compaction.store import CompactionStore
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.inspector.conftest import Site
from tests.turns import exchange, numbered


async def recorded(branch: Branch, count: int) -> Branch:
    head = await branch.head_turn()
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))
    return branch


def said(html: str) -> str:
    """The page's text without its markup."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


async def test_a_branch_is_found_by_whatever_id_it_has(site: Site, client: ContextClient) -> None:
    conversation = "a/b?c=<d>&e'\"% ü"
    branch = await client.open_branch(conversation, "x/y")
    await branch.record_turn(numbered(1))
    shown = await site.get("/branch", conversation=conversation, branch="x/y")
    assert "turns 1 tokens stored" in said(shown)
    assert "a/b?c=&lt;d&gt;&amp;e&#39;&#34;% ü" in shown and "<d>" not in shown


async def test_a_branch_that_is_not_there_is_named(site: Site) -> None:
    shown = await site.get("/branch", expect=404, conversation="nowhere")
    assert "nowhere" in shown


async def test_an_address_without_a_conversation_says_what_is_missing(site: Site) -> None:
    assert "?conversation=ID" in await site.get("/branch", expect=400)


async def test_an_empty_branch_is_shown_as_such(site: Site, client: ContextClient) -> None:
    await client.open_branch("c")
    shown = said(await site.get("/branch", conversation="c"))
    assert "Nothing is recorded yet." in shown and "No checkpoint yet." in shown
    assert "lag none" in shown and "segment none due" in shown


async def test_a_page_shows_checkpoint_lag_and_frontier(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await recorded(await client.open_branch("c"), 30)
    due = said(await site.get("/branch", conversation="c"))
    assert "checkpoint none yet lag 28 turns," in due and "segment due" in due
    await compact_all(pool, branch.branch_uuid)
    shown = said(await site.get("/branch", conversation="c"))
    assert "checkpoint turn 24 lag 4 turns," in shown and "segment none due" in shown
    assert "1 node covers turns 1–24" in shown
    assert "L1 turns 1–24" in shown and "turns 25–30 not compacted" in shown
    assert shown.count("completed, turns") == 2 * 4  # as marks of the plot, and in words
    assert len(re.findall(r"turns [\d–]+ 0 turn completed", shown)) == 4


async def test_a_fork_shows_where_it_comes_from_and_what_it_inherited(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    parent = await recorded(await client.open_branch("c"), 20)
    await compact_all(pool, parent.branch_uuid)
    fork = await recorded(await parent.fork("other <i>", at_turn=14), 10)
    await compact_all(pool, fork.branch_uuid)
    html = await site.get("/branch", conversation="c", branch="other <i>")
    shown = said(html)
    assert "other &lt;i&gt; turns 15–24 from main turns 1–14" in shown
    assert 'href="/branch?conversation=c&amp;branch=main"' in html
    assert re.search(r"L0 turns 1–6 [\d,]+ → [\d,]+ tokens inherited", shown)
    assert not re.search(r"L0 turns 13–18 [\d,]+ → [\d,]+ tokens inherited", shown)
    fresh = await parent.fork("fresh", at_turn=0)
    shown = said(await site.get("/branch", conversation="c", branch=fresh.branch_id))
    assert "fresh no turns from main no turns" in shown


async def test_pauses_and_an_open_run_are_told(site: Site, client: ContextClient) -> None:
    branch = await client.open_branch("c")
    await branch.record_turn(
        [{"role": "user", "content": "Fix it."}, *exchange("1", "red")], continues=True
    )
    await branch.pause("holiday <b>")
    await client.pause()
    shown = said(await site.get("/branch", conversation="c"))
    assert "This branch is paused since" in shown and "holiday &lt;b&gt;" in shown
    assert "All branches of the tenant are paused" in shown
    assert "A long run is open since turn 1 ." in shown


async def test_pins_are_listed(site: Site, client: ContextClient) -> None:
    branch = await recorded(await client.open_branch("c"), 2)
    await branch.pin(2)
    await branch.pin(1, fact="SHP-0001")
    shown = said(await site.get("/branch", conversation="c"))
    assert "1 identifier: SHP-0001" in shown and "2 the whole turn" in shown


async def test_the_workflow_is_linked_where_temporal_has_a_ui(
    site: Site, make_site: Callable[..., Site], client: ContextClient
) -> None:
    branch = await client.open_branch("c")
    workflow = f"compaction-{branch.branch_uuid}"
    plain = await site.get("/branch", conversation="c")
    assert workflow in plain and f"{workflow}</a>" not in plain
    linked = make_site(temporal_ui="http://ui.example", namespace="n s")
    shown = await linked.get("/branch", conversation="c")
    assert f'href="http://ui.example/namespaces/n%20s/workflows/{workflow}"' in shown


async def test_forms_that_change_something_are_there_where_changes_are_allowed(
    site: Site, make_site: Callable[..., Site], client: ContextClient, pool: Pool
) -> None:
    branch = await recorded(await client.open_branch("c"), 16)
    await compact_all(pool, branch.branch_uuid)
    await branch.pin(2)
    node = (await branch.summaries())[0].summary_id
    changing = make_site(allow_changes=True)
    for path, query, offered in (
        ("/branch", {}, ("Pause", "Unpin", "Revert to here…")),
        ("/branch/turn", {"turn": 2}, ("Unpin",)),
        ("/branch/turn", {"turn": 3}, (">Pin<",)),
        ("/branch/node", {"id": node}, ("Rebuild…",)),
    ):
        allowed = await changing.get(path, conversation="c", **query)
        refused = await site.get(path, conversation="c", **query)
        for words in offered:
            assert words in allowed and words not in refused
        assert 'method="post"' not in refused


async def test_each_checkpoint_is_compared_with_the_one_before(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await recorded(await client.open_branch("c"), 16)
    await compact_all(pool, branch.branch_uuid)
    older, newer = await branch.checkpoints()
    html = await site.get("/branch", conversation="c")
    addresses = re.findall(r'href="([^"]*)">diff<', html)
    assert len(addresses) == 1
    assert f"a={older.checkpoint_id}&amp;b={newer.checkpoint_id}&amp;" in addresses[0]
    assert (await site.http.get(unescape(addresses[0]))).status_code == 200


async def test_degraded_nodes_and_compactions_are_marked(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await recorded(await client.open_branch("c"), 9)
    policy = CompactionPolicy(degrade_after=timedelta(0))
    await compact_all(pool, branch.branch_uuid, policy, Told(fails_at=1))
    shown = said(await site.get("/branch", conversation="c"))
    assert "completed degraded" in shown
    assert re.search(r"L0 turns 1–6 [\d,]+ → [\d,]+ tokens degraded", shown)
    assert "degraded, turns 1–6, by reason: turn" in shown


@pytest.mark.parametrize("turns, fork_at, run", [(0, 0, 0), (3, 2, 0), (30, 20, 0), (12, 9, 30)])
async def test_a_branch_stands_as_its_inspection_says(
    client: ContextClient, pool: Pool, turns: int, fork_at: int, run: int
) -> None:
    parent = await recorded(await client.open_branch("c"), turns)
    await compact_all(pool, parent.branch_uuid)
    fork = await recorded(await parent.fork("fork", at_turn=fork_at), 9)
    for number in range(run):
        begin = [{"role": "user", "content": "Fix it."}] if number == 0 else []
        messages = [*begin, *exchange(str(number), f"red {number} " * 200)]
        await fork.record_turn(messages, continues=True)
    for branch in (parent, fork):
        state, standing = await branch.inspect(), await branch.standing()
        told = state.model_dump(exclude={"lag"})
        for name, value in standing.model_dump(exclude={"lag"}).items():
            assert name not in told or told[name] == value, name
        assert (standing.lag.turns, standing.lag.tokens) == (state.lag.turns, state.lag.tokens)
        assert abs(standing.lag.seconds - state.lag.seconds) < 60
        store = CompactionStore(pool, "default", branch.branch_uuid)
        sizes = await store.sizes(standing.checkpoint_turn, 1_000)
        assert standing.is_due == is_due(sizes, standing.open_run_turn, branch.policy)
        covered = state.checkpoint.turn_no if state.checkpoint else 0
        assert standing.checkpoint_turn == covered
