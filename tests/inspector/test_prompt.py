"""The exact next prompt, and what it is made of."""

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient
from durable_context.database import Pool
from tests.compacting import compact_all
from tests.events import Connection, kinds
from tests.inspector.conftest import Site
from tests.inspector.hostile import check_page, text_of, values_of
from tests.inspector.prompts import said
from tests.turns import chat, exchange, numbered

AT = {"conversation": "conversation"}
ASKED = "Where is shipment SHP-0003?"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def record(branch: Branch, turns: int) -> None:
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))


async def test_the_prompt_is_shown_message_by_message_exactly(
    read_only_site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    budget = Budget(max_tokens=9_000, instructions="Be brief.\nAnd kind.")
    prepared = await branch.prepare(ASKED, budget=budget)
    assert prepared
    # Browsers end the lines of a form like this.
    asked = {"message": ASKED, "budget": 9_000, "instructions": "Be brief.\r\nAnd kind."}
    page = await read_only_site.get("/branch/prompt", **AT, **asked)
    check_page(page)
    assert said(page) == [message["content"] for message in prepared.messages]
    shown = text_of(page)
    assert f"{prepared.token_count:,} of 9,000 tokens" in shown
    assert f"made at turn 20 · the first {prepared.manifest.stable_prefix_tokens:,}" in shown
    assert re.findall(r'class="k-(\w+)" x=', page) == [b.kind for b in prepared.manifest.blocks]
    for block in prepared.manifest.blocks:
        assert f"{block.token_count:,}" in shown
    links = "".join(values_of(page, "a", "href"))
    assert all(source in links for b in prepared.manifest.blocks for source in b.source_ids)


async def test_the_stable_prefix_ends_where_the_next_prompt_may_differ(
    site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    page = await site.get("/branch/prompt", **AT, message=ASKED)
    prefix, rest = page.split("The stable prefix ends here")
    assert re.findall(r'<span class="tag">(\w+)<', prefix) == ["checkpoint"]
    assert "retrieved" in rest and "checkpoint" not in re.findall(r'"tag">(\w+)<', rest)
    next_page = await site.get("/branch/prompt", **AT, message="Something else entirely?")
    assert said(next_page)[: prefix.count("<article")] == said(page)[: prefix.count("<article")]


async def test_words_that_led_to_what_was_retrieved_are_marked(
    site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    page = await site.get("/branch/prompt", **AT, message=ASKED)
    marks = {mark.casefold() for mark in re.findall(r"<mark>(.*?)</mark>", page)}
    assert "shp-0003" in marks and "shipment" in marks and "where" not in marks
    retrieved = page[page.index('b-retrieved"') :]
    assert page.count("<mark>") == retrieved.count("<mark>")


async def test_what_gave_way_for_the_budget_is_listed_in_order(site: Site, branch: Branch) -> None:
    await record(branch, 7)
    await branch.record_turn([*chat("go", "on")[:1], *exchange("c1", "row\n" * 9_000)])
    whole = await branch.prepare("go on", budget=Budget(max_tokens=32_000))
    assert whole
    tight = whole.token_count - 120
    prepared = await branch.prepare("go on", budget=Budget(max_tokens=tight))
    assert prepared and prepared.manifest.reductions and prepared.manifest.omitted
    page = await site.get("/branch/prompt", **AT, message="go on", budget=tight)
    check_page(page)
    shown = text_of(page)
    told = [one.kind.replace("_", " ") for one in prepared.manifest.reductions]
    assert re.findall(r'faint">\d+</td><td>([a-z ]+)</td>', page) == told
    assert all(omitted in shown for omitted in prepared.manifest.omitted)


async def test_it_is_made_with_what_the_newest_prompt_was_until_the_form_says_otherwise(
    site: Site, branch: Branch
) -> None:
    function = {"name": "find_shipment", "description": "<b>Finds one</b>", "parameters": {}}
    tools = [{"type": "function", "function": function}]
    budget = Budget(max_tokens=32_000, instructions="Be brief.", tools=tools, model="gpt-4o-mini")
    assert (await branch.newest_parts()) is None
    for turn in (1, 2):
        prepared = await branch.prepare(f"Where is {turn}?", budget=budget)
        assert prepared
        recorded = chat(f"Where is {turn}?", "On its way.")
        await branch.record_turn(recorded, prepared=prepared)
    await branch.record_turn(numbered(3))
    prepared = await branch.prepare("And 3?", budget=budget)
    assert prepared
    page = await site.get("/branch/prompt", **AT, message="And 3?")
    check_page(page)
    shown = text_of(page)
    assert f"{prepared.token_count:,} of 32,000 tokens" in shown
    assert (
        "with the tool of turn 2" in shown
        and "find_shipment" in shown
        and "tokens of gpt-4o" in shown
    )
    sent = {name: value for name, value in fields_of(page).items() if name != "branch"}
    again = await site.get("/branch/prompt", **sent)
    assert said(again) == said(page)
    sent = await site.get("/branch/prompt/request.json", **AT, message="And 3?")
    assert json.loads(sent)["tools"] == tools
    bare = await site.get("/branch/prompt", **AT, message="And 3?", instructions="", model="")
    assert "Be brief." not in said(bare) and "find_shipment" not in bare


def fields_of(page: str) -> dict[str, str]:
    form = page[page.index('<form id="fields"') :]
    form = form[: form.index("</form>")]
    names, values = values_of(form, "input", "name"), re.findall(r'value="(.*?)"', form)
    return {name: html.unescape(value) for name, value in zip(names, values, strict=True)}


async def test_a_budget_that_nothing_fits_is_told_with_what_would_do(
    site: Site, branch: Branch
) -> None:
    await record(branch, 7)
    exceeded = await branch.foresee_prompt("hello", budget=Budget(max_tokens=20))
    assert not exceeded
    page = await site.get("/branch/prompt", **AT, message="hello", budget=20)
    check_page(page)
    shown = text_of(page)
    assert "No prompt fits" in shown and "The limit is 20 tokens" in shown
    assert f"can be built has {exceeded.smallest:,}" in shown
    fits = await site.get("/branch/prompt", **AT, message="hello", budget=exceeded.smallest)
    assert "The request" in fits


async def test_a_look_writes_nothing_then_or_later(
    read_only_site: Site, make_client: Callable[..., Any], branch: Branch, connection: Connection
) -> None:
    await record(branch, 9)
    put = await branch.put_artifact("content", name="plan")
    before = await kinds(branch)
    await read_only_site.get("/branch/prompt", **AT, message="hello", budget=20)
    await read_only_site.get("/branch/prompt/message", **AT, message="hello", place="0.0.0")
    await read_only_site.get("/branch/diff", **AT, of="prompts")
    await read_only_site.get("/branch/artifact", **AT, handle=put.handle)
    client = inspected_client(read_only_site)
    assert not client._resources.pending_events._waiting
    assert await kinds(branch) == before


def inspected_client(site: Site) -> ContextClient:
    app: Any = site.http._transport.app  # type: ignore[attr-defined]
    while not hasattr(app, "state"):
        app = app._app
    return app.state.inspector.client


async def test_a_run_that_is_open_needs_no_message(site: Site, branch: Branch) -> None:
    await branch.record_turn(
        [{"role": "user", "content": "Mend the parser."}, *exchange("c1", "def parse(): ...")],
        continues=True,
    )
    prepared = await branch.prepare(None, budget=Budget(max_tokens=32_000))
    assert prepared
    page = await site.get("/branch/prompt", **AT)
    check_page(page)
    assert "A long run is open" in page and "Mend the parser." in said(page)
    assert f"{prepared.token_count:,} of 32,000 tokens" in text_of(page)


async def test_a_prompt_of_an_earlier_turn_is_that_of_a_fork(site: Site, branch: Branch) -> None:
    await record(branch, 6)
    page = await site.get("/branch/prompt", **AT, message="go on", at_turn=2)
    assert "made at turn 2" in text_of(page) and "SHP-0003" not in page
    at_none = await site.get("/branch/prompt", **AT, message="go on", at_turn=0)
    assert said(at_none) == ["go on"]


async def test_an_empty_branch_has_a_prompt_once_something_is_said(
    site: Site, branch: Branch
) -> None:
    page = await site.get("/branch/prompt", **AT)
    assert "there is nothing to send" in page and "<form" in page
    assert said(await site.get("/branch/prompt", **AT, message="hello")) == ["hello"]


@pytest.mark.parametrize("provider", ["anthropic", "gemini"])
async def test_other_providers_get_the_same_in_their_own_form(
    site: Site, branch: Branch, provider: Any
) -> None:
    await branch.record_turn([*chat("go", "on")[:1], *exchange("c1", "42 rows", depot="B <b>")])
    asked = {"message": "and now?", "instructions": "Be brief.", "format": provider}
    page = await site.get("/branch/prompt", **AT, **asked)
    check_page(page)
    assert said(page)[0] == "Be brief." and said(page)[-1].endswith("and now?")
    assert "42 rows" in page and "B &lt;b&gt;" in page
    budget = Budget(max_tokens=32_000, instructions="Be brief.")
    prepared = await branch.prepare("and now?", budget=budget)
    assert prepared
    made = prepared.to_anthropic() if provider == "anthropic" else prepared.to_gemini()
    sent = await site.get("/branch/prompt/request.json", **AT, **asked)
    assert json.loads(sent) == json.loads(json.dumps(made, default=repr))


async def test_a_model_has_its_own_count(site: Site, branch: Branch) -> None:
    await record(branch, 5)
    prepared = await branch.prepare("go", budget=Budget(max_tokens=9_000, model="claude-sonnet-4"))
    assert prepared and prepared.manifest.token_factor > 1
    page = await site.get("/branch/prompt", **AT, message="go", model="claude-sonnet-4")
    assert f"estimated as {prepared.manifest.token_factor:g} for each of the" in text_of(page)


@pytest.mark.parametrize(
    "asked",
    [
        {"budget": "0"},
        {"budget": "much"},
        {"budget": "99999999999"},
        {"at_turn": "-1"},
        {"at_turn": "99", "message": "x"},
        {"format": "<b>"},
        {"model": "x" * 500},
        {"model": "\x07"},
    ],
)
async def test_what_no_prompt_can_be_made_of_is_refused(
    site: Site, branch: Branch, asked: dict[str, str]
) -> None:
    page = await site.get("/branch/prompt", **AT, **asked, expect=400)
    check_page(page)
    assert "<b>" not in page
