"""Compactions of a branch, and of all."""

import json
from uuid import UUID

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from durable_context.errors import SummarizerRejected
from durable_context.inspector.compactions_page import CALLS, PAGE
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.events import Connection
from tests.inspector.conftest import Site
from tests.inspector.hostile import HOSTILE, check_page, text_of, values_of
from tests.turns import numbered

MODEL = "model/openai:gpt-4o-mini/1"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def compacted(branch: Branch, pool: Pool, turns: int, *script: Exception) -> None:
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    summarizer = ScriptedSummarizer(*script, recipe=MODEL)
    await compact_all(pool, branch.branch_uuid, summarizer=summarizer)


async def fail(connection: Connection, branch: Branch, count: int, **fields: object) -> None:
    """Failed ones of segments far ahead, in clear order."""
    told = {"error": "no", "usage": "[]", "workflow_id": None, "run_id": None} | fields
    await connection.execute(
        "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn, status,"
        " reason, started_at, error, usage, workflow_id, run_id)"
        " select 'default', $1, 1000 + n, 1000 + n, 'failed', 'turn',"
        " timestamptz '2020-01-01' + n * interval '1 hour', $3, $4::text::json, $5, $6"
        " from generate_series(1, $2) n",
        branch.branch_uuid,
        count,
        *told.values(),
    )


async def test_a_compaction_is_shown_with_what_it_cost_and_saves(
    read_only_site: Site, branch: Branch, pool: Pool
) -> None:
    await compacted(branch, pool, 8)
    [made] = await branch.compactions()
    page = await read_only_site.get("/branch/compactions", conversation="conversation")
    check_page(page)
    shown = text_of(page)
    assert "turns 1–6 level 0, turn" in shown and "completed" in shown
    assert f"{made.tokens_before:,} → {made.tokens_after:,}" in shown
    assert f"saves {made.saved_tokens:,} a turn, broke {made.broken_tokens:,}" in shown
    assert f"{MODEL} · read 500, wrote 20" in shown and f"{made.balance:+,}" in shown
    assert "$0.0001" in shown  # 500 read at $0.15 and 20 written at $0.60 a million
    assert f'id="compaction-{made.compaction_id}"' in page
    assert "degraded" not in shown


async def test_what_is_degraded_says_so(site: Site, branch: Branch, pool: Pool) -> None:
    await compacted(branch, pool, 8, SummarizerRejected("no"))
    page = await site.get("/branch/compactions", conversation="conversation")
    assert "completed degraded" in text_of(page)


async def test_a_run_is_linked_where_temporal_has_a_ui(
    make_site: object, branch: Branch, connection: Connection
) -> None:
    await fail(connection, branch, 1, workflow_id="compaction-1", run_id="r 1")
    links: dict[str | None, list[str]] = {}
    for ui in (None, "http://temporal.test"):
        site: Site = make_site(temporal_ui=ui, namespace="n s")  # type: ignore[operator]
        page = await site.get("/branch/compactions", conversation="conversation")
        check_page(page)
        links[ui] = [one for one in values_of(page, "a", "href") if "/workflows/" in one]
    assert links == {
        None: [],
        "http://temporal.test": [
            "http://temporal.test/namespaces/n%20s/workflows/compaction-1/r%201"
        ],
    }


async def test_pages_follow_one_another_and_begin_with_any_compaction(
    site: Site, branch: Branch, connection: Connection
) -> None:
    await fail(connection, branch, PAGE + 3)
    page = await site.get("/branch/compactions", conversation="conversation")
    first = ids(page)
    assert len(first) == PAGE
    [older] = [one for one in values_of(page, "a", "href") if "begin=" in one]
    rest = ids((await site.http.get(older)).text)
    everything = [one.compaction_id for one in await branch.compactions(100)]
    assert [*first, *rest] == everything
    begun = await site.get(
        "/branch/compactions", conversation="conversation", begin=str(everything[7])
    )
    assert ids(begun)[0] == everything[7]


async def test_compactions_are_filtered(
    site: Site, branch: Branch, pool: Pool, connection: Connection
) -> None:
    await compacted(branch, pool, 8)
    await fail(connection, branch, 2)
    at = {"conversation": "conversation"}
    assert len(ids(await site.get("/branch/compactions", **at, status="failed"))) == 2
    assert len(ids(await site.get("/branch/compactions", **at, status="completed"))) == 1
    none = await site.get("/branch/compactions", **at, reason="rebuild")
    assert "No such compactions" in none
    refused = await site.get("/branch/compactions", **at, status="<b>", expect=400)
    assert "allowed are running, completed, failed, skipped" in refused and "<b>" not in refused
    for begin in ("x", "00000000-0000-0000-0000-000000000000"):
        assert "begin=" in await site.get("/branch/compactions", **at, begin=begin, expect=400)


async def test_all_branches_have_a_page_together(
    read_only_site: Site, client: ContextClient, branch: Branch, connection: Connection
) -> None:
    other = await client.open_branch("a/b <i>", "x&y")
    await fail(connection, branch, 1)
    await fail(connection, other, PAGE)
    page = await read_only_site.get("/compactions")
    check_page(page)
    assert "a/b &lt;i&gt; / x&amp;y" in page
    assert f"compactions {PAGE + 1}" in text_of(page)
    [older] = [one for one in values_of(page, "a", "href") if "begin=" in one]
    last = await read_only_site.http.get(older)
    assert len(ids(last.text)) == 1 and "tokens read" not in last.text


async def test_nothing_was_compacted_yet(site: Site, branch: Branch) -> None:
    assert "Nothing was compacted yet" in await site.get(
        "/branch/compactions", conversation="conversation"
    )


async def test_errors_and_calls_are_shown_as_text_of_bounded_length(
    site: Site, branch: Branch, connection: Connection
) -> None:
    call = {"made_by": HOSTILE, "outcome": "bad", "error": HOSTILE * 50, "input_tokens": 1}
    usage = json.dumps([call] * (CALLS + 20))
    await fail(connection, branch, PAGE, error=HOSTILE * 20, usage=usage)
    page = await site.get("/branch/compactions", conversation="conversation", status="failed")
    check_page(page)
    assert "and 20 more calls" in text_of(page)
    assert "\\x1b[31mred" in page and "{{ 7 * 7 }}" in page
    more = next(one for one in values_of(page, "a", "href") if "begin=" in one)
    whole = (await site.http.get(more)).text
    check_page(whole)
    assert whole.count("<td>bad</td>") == PAGE * CALLS + 20


def ids(page: str) -> list[UUID]:
    found = values_of(page, "tbody", "id")
    return [UUID(one.removeprefix("compaction-")) for one in found]
