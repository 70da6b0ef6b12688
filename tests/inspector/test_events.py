"""What happened to a branch."""

import pytest

from durable_context import Branch, Budget, ContextClient
from durable_context.database import Pool
from durable_context.events import EventStore
from durable_context.inspector.events_page import PAGE
from tests.compacting import compact_all
from tests.inspector.conftest import Site
from tests.inspector.hostile import HOSTILE, LONE, check_page, text_of, values_of
from tests.turns import numbered


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def test_events_are_shown_newest_first_with_their_figures(
    read_only_site: Site, branch: Branch, pool: Pool
) -> None:
    for turn in range(1, 9):
        prepared = await branch.prepare("go on", budget=Budget(max_tokens=9_000))
        assert prepared
        await branch.record_turn(numbered(turn), prepared=prepared)
    await compact_all(pool, branch.branch_uuid)
    await branch.put_artifact("plan", name="plan")
    await branch.fork("what/if")
    page = await read_only_site.get("/branch/events", conversation="conversation")
    check_page(page)
    shown = text_of(page[page.index("<tbody>") :])
    assert shown.index("forked") < shown.index("compaction completed") < shown.index("recorded")
    [made] = await branch.compactions()
    assert f"reason turn attempts 1 recipe {made.recipe}" in shown
    assert f"tokens before {made.tokens_before:,} tokens after {made.tokens_after:,}" in shown
    [plan] = await branch.artifacts()
    links = values_of(page, "a", "href")
    for address in (
        f"/branch/artifact?handle={plan.handle}&conversation=conversation&branch=main",
        f"/branch/compactions?begin={made.compaction_id}&conversation=conversation&branch=main"
        f"#compaction-{made.compaction_id}",
        "/branch?conversation=conversation&branch=what%2Fif",
        "/branch/turn?turn=8&conversation=conversation&branch=main",
    ):
        assert address in links


async def test_older_events_follow_page_by_page(site: Site, branch: Branch, pool: Pool) -> None:
    events = EventStore(pool, "default")
    for n in range(PAGE + 5):
        await events.note(branch.branch_uuid, "over_budget", 0, {"limit": n})
    page = await site.get("/branch/events", conversation="conversation")
    first = values_of(page, "tr", "id")
    assert (len(first), first[0]) == (PAGE, f"event-{PAGE + 5}")
    [older] = [one for one in values_of(page, "a", "href") if "before=" in one]
    rest = values_of((await site.http.get(older)).text, "tr", "id")
    assert rest == [f"event-{n}" for n in range(5, 0, -1)]


async def test_events_of_one_kind(site: Site, branch: Branch) -> None:
    await branch.record_turn(numbered(1))
    await branch.put_artifact("plan", name="plan")
    at = {"conversation": "conversation"}
    page = await site.get("/branch/events", **at, kind="put")
    assert values_of(page, "tr", "id") == ["event-2"]
    assert "No such events" in await site.get("/branch/events", **at, kind="damaged")
    assert "allowed are prepared" in await site.get("/branch/events", **at, kind="x", expect=400)
    assert "before=" in await site.get("/branch/events", **at, before="-1", expect=400)


async def test_nothing_happened_yet(site: Site, branch: Branch) -> None:
    assert "Nothing happened yet" in await site.get("/branch/events", conversation="conversation")


async def test_whatever_an_event_holds_is_text_of_bounded_length(
    site: Site, branch: Branch, pool: Pool
) -> None:
    data = {
        HOSTILE: HOSTILE * 1_000,
        "because": LONE,
        "ids": list(range(10_000)),
        "handle": 'art_"><b>',
        "blocks": {str(n): n for n in range(1_000)},
    }
    for _ in range(5):
        await EventStore(pool, "default").note(branch.branch_uuid, "damaged", 0, data)
    page = await site.get("/branch/events", conversation="conversation")
    check_page(page)
    assert "and 9,980 more" in page and "\\ud83d half a pair" in page
    assert "<b>" not in page
