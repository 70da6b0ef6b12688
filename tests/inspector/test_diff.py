"""What differs between checkpoints, or between what the model saw."""

import html
import re

import pytest

from durable_context import Branch, Budget, ContextClient
from durable_context.database import Pool
from durable_context.inspector.diff_page import LINES, DiffLine, diff_lines
from tests.compacting import compact_all
from tests.inspector.conftest import Site
from tests.inspector.hostile import HOSTILE, check_page, text_of, values_of
from tests.turns import chat, numbered

AT = {"conversation": "conversation"}
WIDE = Budget(max_tokens=32_000)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def record(branch: Branch, turns: int, start: int = 1) -> None:
    for turn in range(start, turns + 1):
        prepared = await branch.prepare(f"Go on to {turn}", budget=WIDE)
        assert prepared
        await branch.record_turn(numbered(turn), prepared=prepared)


async def test_the_newest_checkpoints_are_compared_unless_others_are_named(
    read_only_site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    older, newer = (await branch.checkpoints())[-2:]
    differs = await branch.diff(older.checkpoint_id, newer.checkpoint_id)
    page = await read_only_site.get("/branch/diff", **AT)
    check_page(page)
    assert values_of(page, "input", "value")[2:4] == [
        str(older.checkpoint_id),
        str(newer.checkpoint_id),
    ]
    shown = text_of(page)
    assert f"from turn 12, {older.token_count:,} tokens" in shown
    assert f"to turn 18, {newer.token_count:,} tokens" in shown
    assert lines_of(page, "added") == [line[1:] for line in differs.lines[2:] if line[0] == "+"]
    assert lines_of(page, "removed") == [line[1:] for line in differs.lines[2:] if line[0] == "-"]
    whole = await read_only_site.get("/branch/diff", **AT, a=0, b=6)
    assert "the beginning, 0 tokens" in text_of(whole)
    assert "The texts are the same" in await read_only_site.get("/branch/diff", **AT, a=6, b=6)


async def test_checkpoints_are_chosen_from_a_list_before_what_is_typed(
    read_only_site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid)
    first = (await branch.checkpoints())[0].checkpoint_id
    page = await read_only_site.get("/branch/diff", **AT)
    assert values_of(page, "option", "value").count(str(first)) == 2
    page = await read_only_site.get("/branch/diff", **AT, a=12, b=18, listed_a=str(first))
    check_page(page)
    assert values_of(page, "input", "value")[2:4] == [str(first), "18"]
    assert "from turn 6, " in text_of(page)


async def test_what_the_model_saw_is_compared_turn_by_turn(
    read_only_site: Site, branch: Branch
) -> None:
    await record(branch, 5)
    page = await read_only_site.get("/branch/diff", **AT, of="prompts")
    check_page(page)
    assert values_of(page, "input", "value")[2:4] == ["4", "5"]
    assert any("SHP-0004" in line for line in lines_of(page, "added"))
    assert "from turn 4" in text_of(page) and "raw" in text_of(page)


async def test_two_branches_are_compared(site: Site, branch: Branch, pool: Pool) -> None:
    await record(branch, 8)
    fork = await branch.fork("what if", at_turn=6)
    for _ in range(2):
        await fork.record_turn(chat("Something else <b>", "Indeed."))
    page = await site.get("/branch/diff", **AT, of="prompts", a=8, b=8, other="what if")
    check_page(page)
    assert any("Something else <b>" in line for line in lines_of(page, "added"))
    assert "what if" in values_of(page, "option", "value")
    refused = await site.get("/branch/diff", **AT, of="prompts", a=8, b=8, other="no", expect=404)
    assert "no branch" in text_of(refused)


async def test_what_cannot_be_compared_is_told_beside_the_form(
    site: Site, branch: Branch, pool: Pool
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    for asked, told in (
        ({"a": "7", "b": "12"}, "there is no checkpoint at turn 7"),
        ({"a": "<b>", "b": "12"}, "it must be a turn, or the id of a checkpoint"),
        ({"a": "99999999999", "b": "6"}, "it must be a turn"),
        ({"of": "prompts", "a": "1", "b": "99"}, "there is no turn 99"),
        ({"a": "00000000-0000-0000-0000-000000000000", "b": "6"}, "has no checkpoint"),
    ):
        page = await site.get("/branch/diff", **AT, **asked, expect=400)
        check_page(page)
        assert told in text_of(page) and "<b>" not in page
        assert values_of(page, "input", "value")[2] == asked["a"]


async def test_without_checkpoints_prompts_are_offered(site: Site, branch: Branch) -> None:
    assert "There is no checkpoint yet" in text_of(await site.get("/branch/diff", **AT))
    assert "Name two turns" in text_of(await site.get("/branch/diff", **AT, of="prompts"))


async def test_a_long_diff_comes_page_by_page(site: Site, branch: Branch) -> None:
    said = "\n".join(f"{HOSTILE[:20]} line {n}" for n in range(2 * LINES))
    await branch.record_turn(chat("short", "yes"))
    await branch.record_turn(chat(said, "x" * 400_000))
    await branch.record_turn(chat("next", "yes"))
    page = await site.get("/branch/diff", **AT, of="prompts", a=1, b=3)
    check_page(page)
    seen = lines_of(page, "added")
    while following := [one for one in values_of(page, "a", "href") if "start=" in one]:
        page = (await site.http.get(following[0])).text
        check_page(page)
        seen += lines_of(page, "added")
    assert [line for line in seen if "line" in line] == said.split("\n")
    assert "399,000 more characters" in page or any("more characters" in line for line in seen)


def test_lines_keep_their_numbers_and_what_is_the_same_is_folded() -> None:
    unified = ["--- a", "+++ b", "@@ -4,2 +4,3 @@", " same", "-gone", "+new", "+more"]
    unified += ["@@ -10 +11,0 @@", "-last"]
    assert list(diff_lines(unified)) == [
        DiffLine("fold", None, None, "", 3),
        DiffLine("same", 4, 4, "same"),
        DiffLine("removed", 5, None, "gone"),
        DiffLine("added", None, 5, "new"),
        DiffLine("added", None, 6, "more"),
        DiffLine("fold", None, None, "", 4),
        DiffLine("removed", 10, None, "last"),
    ]


def lines_of(page: str, kind: str) -> list[str]:
    rows = re.findall(rf'<tr class="{kind}">.*?</td><td>([^\0]*?)</td></tr>', page)
    cells = (row.rsplit("<td>", 1)[-1] for row in rows)
    return [html.unescape(re.sub(r' <span class="faint">…', "…", cell)) for cell in cells]
