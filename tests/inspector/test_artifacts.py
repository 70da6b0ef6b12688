"""Artifacts: the list, and contents by lines, as pictures, or to be saved."""

import html
import re

import pytest

from durable_context import Branch, ContextClient
from durable_context.inspector import artifacts_page
from durable_context.inspector.artifacts_page import LINE, LINES, PAGE
from durable_context.inspector.long_text import PIECE
from tests.inspector.conftest import Site
from tests.inspector.hostile import HOSTILE, PNG, check_page, text_of, values_of
from tests.turns import chat, exchange

AT = {"conversation": "conversation"}


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def test_artifacts_are_listed_newest_first_page_by_page(
    read_only_site: Site, branch: Branch
) -> None:
    await branch.record_turn([*chat("go", "on"), *exchange("c1", "row\n" * 9_000, name="query")])
    for n in range(PAGE + 2):
        await branch.put_artifact(f"{n}", name=f"note {n}")
    await branch.put_artifact("again", name="note 0")
    page = await read_only_site.get("/branch/artifacts", **AT)
    check_page(page)
    first = handles(page)
    assert len(first) == PAGE and "note 0 v2" in text_of(page) and "text/plain" in page
    [older] = [one for one in values_of(page, "a", "href") if "begin=" in one]
    rest = handles((await read_only_site.http.get(older)).text)
    assert [*first, *rest] == [one.handle for one in (await branch.artifacts())[::-1]]


async def test_a_branch_without_artifacts_says_what_they_are(site: Site, branch: Branch) -> None:
    assert "The branch has none" in await site.get("/branch/artifacts", **AT)


async def test_a_text_is_shown_by_lines(read_only_site: Site, branch: Branch) -> None:
    lines = [f"line {n}" for n in range(1, 3 * LINES)]
    put = await branch.put_artifact("\n".join(lines), name="log")
    at = {**AT, "handle": put.handle}
    page = await read_only_site.get("/branch/artifact", **at)
    check_page(page)
    assert shown_lines(page) == lines[:LINES]
    [following] = [one for one in values_of(page, "a", "href") if "start=" in one]
    assert shown_lines((await read_only_site.http.get(following)).text) == lines[LINES : 2 * LINES]
    last = await read_only_site.get("/branch/artifact", **at, start=3 * LINES - 1)
    assert shown_lines(last) == lines[-1:]
    beyond = await read_only_site.get("/branch/artifact", **at, start=9_999)
    assert f"There is no line 9,999: the text has {len(lines):,}" in text_of(beyond)


async def test_lines_that_hold_a_text_keep_their_numbers(
    site: Site, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {n}: {'odd' if n % 2 else 'Even'}" for n in range(1, 3 * LINES)]
    put = await branch.put_artifact("\n".join(lines), name="log")
    monkeypatch.setattr(artifacts_page, "GREP_LINES", 7)
    at = {**AT, "handle": put.handle, "grep": "EVEN"}
    page = await site.get("/branch/artifact", **at)
    assert shown_lines(page) == [line for line in lines if "Even" in line][:LINES]
    assert values_of(page, "tr", "id")[:2] == ["line-2", "line-4"]
    [following] = [one for one in values_of(page, "a", "href") if "start=" in one]
    rest = (await site.http.get(following)).text
    assert values_of(rest, "tr", "id")[0] == f"line-{2 * LINES + 2}"
    none = await site.get("/branch/artifact", **{**at, "grep": "<b>none</b>"})
    assert "No line from 1 on holds that" in none and "<b>none" not in none


async def test_a_line_of_a_megabyte_is_read_piece_by_piece(site: Site, branch: Branch) -> None:
    line = "".join(f"{n:07d} " for n in range(125_000))
    put = await branch.put_artifact(f"{line}\nend", name="line", media_type="text/plain")
    page = await site.get("/branch/artifact", **AT, handle=put.handle)
    check_page(page)
    assert shown_lines(page)[1] == "end"
    [more] = [one for one in values_of(page, "a", "href") if "character=" in one]
    piece = (await site.http.get(more)).text
    check_page(piece)
    assert line[LINE : LINE + PIECE] in piece
    [more] = [one for one in values_of(piece, "a", "href") if "character=" in one]
    assert line[LINE + PIECE : LINE + 2 * PIECE] in (await site.http.get(more)).text


async def test_whatever_a_text_holds_is_text(site: Site, branch: Branch) -> None:
    for name, media_type in (("a.html", "text/html"), ("b.svg", "image/svg+xml")):
        put = await branch.put_artifact(HOSTILE * 2_000, name=name, media_type=media_type)
        page = await site.get("/branch/artifact", **AT, handle=put.handle)
        check_page(page)
        assert "\\x1b[31mred" in page and "&lt;script&gt;alert(1)" in page
    put = await branch.put_artifact(
        b"\xff\xfe\x00 not UTF-8", name=HOSTILE[:60], media_type="text/x"
    )
    page = await site.get("/branch/artifact", **AT, handle=put.handle)
    check_page(page)
    check_page(await site.get("/branch/artifacts", **AT))


async def test_a_picture_is_shown_as_what_its_bytes_are(
    read_only_site: Site, branch: Branch
) -> None:
    put = await branch.put_artifact(PNG, name="dot.png")
    page = await read_only_site.get("/branch/artifact", **AT, handle=put.handle)
    check_page(page)
    [address] = values_of(page, "img", "src")
    answer = await read_only_site.http.get(address)
    assert (answer.status_code, answer.content) == (200, PNG)
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>", "image/svg+xml"),
        (b"<script>alert(1)</script>", "text/html"),
        (b"<script>alert(1)</script>", "image/png"),
        (b"%PDF-1.4", "application/pdf"),
        (b"\x00\x01", "application/octet-stream"),
    ],
)
async def test_all_but_pictures_is_only_saved(
    site: Site, branch: Branch, content: bytes, media_type: str
) -> None:
    put = await branch.put_artifact(content, name='x/"; a=b\r\n.svg', media_type=media_type)
    answer = await site.http.get(f"/branch/artifact/content?{_query(put.handle)}")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-type"] == "application/octet-stream"
    disposition = answer.headers["content-disposition"]
    assert re.fullmatch(r"attachment; filename\*=UTF-8''[A-Za-z0-9%._~-]+", disposition)
    check_page(await site.get("/branch/artifact", **AT, handle=put.handle))


async def test_versions_of_a_name_are_linked(site: Site, branch: Branch) -> None:
    first = await branch.put_artifact("one", name="plan")
    second = await branch.put_artifact("two", name="plan")
    page = await site.get("/branch/artifact", **AT, handle=first.handle)
    assert "one" in shown_lines(page) and "version 1" in text_of(page)
    assert second.handle in "".join(values_of(page, "a", "href"))


async def test_what_a_branch_does_not_see_is_not_shown(
    site: Site, client: ContextClient, branch: Branch
) -> None:
    other = await client.open_branch("other")
    put = await other.put_artifact("secret words", name="plan")
    for path in ("/branch/artifact", "/branch/artifact/content"):
        for handle in (put.handle, "<b>", "off_1", "art_" + 22 * "A"):
            refused = await site.get(path, **AT, handle=handle, expect=404)
            assert "secret words" not in refused and "<b>" not in refused
        assert "no handle" in await site.get(path, **AT, expect=400)
    await site.get("/branch/artifacts", **AT, begin=put.handle, expect=404)


def _query(handle: str) -> str:
    return f"conversation=conversation&handle={handle}"


def handles(page: str) -> list[str]:
    links = [one for one in values_of(page, "a", "href") if "handle=" in one]
    return [found[0] for one in links if (found := re.search(r"art_[\w-]{22}", one))]


def shown_lines(page: str) -> list[str]:
    rows = re.findall(r'<tr id="line-\d+">.*?<td>(.*?)</td></tr>', page, re.DOTALL)
    return [html.unescape(re.sub(r" <a .*", "", row)) for row in rows]
