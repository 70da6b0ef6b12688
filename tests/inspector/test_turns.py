"""Turns: pages of them, one whole, and long messages in parts."""

import re
from html import unescape

import pytest

from durable_context import Branch, ContextClient, Message
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.inspector.messages import shown_messages
from durable_context.looks.outlines import turn_outlines
from durable_context.models import ToolCall
from tests.inspector.conftest import Site
from tests.turns import chat, exchange, numbered


async def recorded(client: ContextClient, count: int) -> Branch:
    branch = await client.open_branch("c")
    for turn in range(1, count + 1):
        await branch.record_turn(numbered(turn))
    return branch


def rows(html: str) -> list[int]:
    """Numbers of the turns in a list."""
    return [int(number) for number in re.findall(r'<tr id="turn-(\d+)"', html)]


def said(html: str) -> str:
    """What stands in the preformatted parts."""
    return unescape("".join(re.findall(r"<pre>(.*?)</pre>", html, re.DOTALL)))


async def test_the_newest_turns_come_first_and_pages_lead_to_all(
    site: Site, client: ContextClient
) -> None:
    await recorded(client, 120)
    newest = await site.get("/branch/turns", conversation="c")
    assert rows(newest) == list(range(71, 121)) and ">Newer<" not in newest
    oldest = await site.get("/branch/turns", conversation="c", **{"from": 1})
    assert rows(oldest) == list(range(1, 51)) and ">Older<" not in oldest
    following = re.findall(r'href="([^"]*)">Newer<', oldest)[0]
    middle = (await site.http.get(unescape(following))).text
    assert rows(middle) == list(range(51, 101)) and "turns 51–100 of 120" in middle


async def test_a_row_has_digest_facts_outcome_pins_and_tokens(
    site: Site, client: ContextClient
) -> None:
    branch = await recorded(client, 2)
    await branch.record_turn(
        [{"role": "user", "content": "Fix order Q-77."}, *exchange("1", "red")], continues=True
    )
    await branch.record_turn(chat("Stop", "Stopped."), outcome="interrupted")
    await branch.pin(2)
    await branch.pin(1, fact="SHP-0001")
    fork = await branch.fork("fork", at_turn=2)
    html = await site.get("/branch/turns", conversation="c")
    assert "Asked: Where is shipment SHP-0002?" in html and "the run goes on" in html
    assert "interrupted" in html and re.search(r"pinned</span>", html)
    assert "pinned: SHP-0001" in html and "inherited" not in html
    (outline,) = await branch.turn_outlines(1, 1)
    assert outline.digest in unescape(html)
    inherited = await site.get("/branch/turns", conversation="c", branch=fork.branch_id)
    assert inherited.count('class="inherited"') == 2


async def test_an_empty_branch_has_no_turns(site: Site, client: ContextClient) -> None:
    await client.open_branch("c")
    assert "No turns yet." in await site.get("/branch/turns", conversation="c")
    shown = await site.get("/branch/turn", expect=400, conversation="c", turn=1)
    assert "has no turns yet" in shown


@pytest.mark.parametrize("turn", ["0", "4", "-1", "x", "1e3", "99999999999"])
async def test_a_turn_that_is_not_there_is_refused(
    site: Site, client: ContextClient, turn: str
) -> None:
    await recorded(client, 3)
    query = {"conversation": "c", "turn": turn}
    assert "from 1 to 3" in await site.get("/branch/turn", expect=400, **query)
    assert "from 1 to 3" in await site.get(
        "/branch/turns", expect=400, conversation="c", **{"from": turn}
    )


async def test_a_search_finds_turns_and_quotes_them(site: Site, client: ContextClient) -> None:
    await recorded(client, 60)
    html = await site.get("/branch/turns", conversation="c", q="SHP-0017 <b>")
    assert 'href="/branch/turn?turn=17&amp;' in html and "SHP-0017" in said(html)
    assert "“SHP-0017 &lt;b&gt;”" in html and not rows(html)
    assert len(rows(await site.get("/branch/turns", conversation="c", q="  "))) == 50
    nothing = await site.get("/branch/turns", conversation="c", q="zebra\x00")
    assert "0 found" in nothing


async def test_a_turn_is_shown_whole(site: Site, client: ContextClient) -> None:
    branch = await recorded(client, 1)
    long = "\n".join(f"line {number} of the report" for number in range(2_000))
    turn = await branch.record_turn(
        [
            {"role": "user", "content": "Read it."},
            *exchange("call_9", long, name="read_file", path="/srv/a.csv"),
            {"role": "assistant", "content": "Order Q-77 is late."},
        ],
        usage={"input_tokens": 123},
        metadata={"agent": "<i>demo</i>"},
        turn_key="key-1",
    )
    html = await site.get("/branch/turn", conversation="c", turn=2)
    assert '{"path": "/srv/a.csv"}' in said(html) and "read_file" in html and "call_9" in html
    handle = turn.messages[2].artifact
    assert handle and html.count(f'href="/branch/artifact?handle={handle}&amp;') == 2
    assert '"input_tokens": 123' in said(html) and "&lt;i&gt;demo&lt;/i&gt;" in html
    assert "key-1" in html and "Q-77" in html and "no summary yet" in html
    assert 'href="/branch/turn?turn=1&amp;' in html and "turn=3" not in html
    part = await site.http.get("/branch/turn?conversation=c&turn=2", headers={"HX-Request": "true"})
    assert "<html" not in part.text and "Order Q-77 is late." in part.text


async def test_a_long_message_is_cut_and_can_be_read_to_its_end(
    site: Site, client: ContextClient
) -> None:
    branch = await client.open_branch("c")
    text = "".join(f"<{number}> & " for number in range(12_000))
    await branch.record_turn(chat(text, "ok"))
    html = await site.get("/branch/turn", conversation="c", turn=1)
    assert len(html) < 300_000 and "The whole message" in html
    address: str | None = re.findall(r'href="([^"]*)">The whole message<', html)[0]
    read = ""
    while address is not None:
        page = (await site.http.get(unescape(address))).text
        assert len(page) < 300_000
        read += said(page)
        address = next(iter(re.findall(r'href="([^"]*)">After<', page)), None)
    assert read == text


async def test_a_turn_of_many_messages_is_shown_in_pages(site: Site, client: ContextClient) -> None:
    branch = await client.open_branch("c")
    calls = [one for number in range(60) for one in exchange(f"c{number}", f"{number} " * 400)]
    await branch.record_turn([{"role": "user", "content": "Go."}, *calls], continues=True)
    first = await site.get("/branch/turn", conversation="c", turn=1)
    assert first.count("<article") == 50 and "More messages, from 51 to 121" in first
    assert len(first) < 300_000
    last = await site.get("/branch/turn", conversation="c", turn=1, message=101)
    assert last.count("<article") == 21 and "More messages" not in last
    await site.get("/branch/turn", expect=400, conversation="c", turn=1, message=122)


async def test_hostile_text_is_shown_as_text(site: Site, client: ContextClient) -> None:
    branch = await client.open_branch("c")
    hostile = '<script>a()</script>\ud800 \x1b[2J\u202e"\'><a href="javascript:b()">x\x00\x07'
    messages = [
        {"role": "user", "name": hostile, "content": hostile},
        *exchange("id-1", hostile, name="<tool>", text=hostile),
        {"role": "assistant", "content": [{"type": "text", "text": hostile}]},
    ]
    await branch.record_turn(messages, metadata={hostile: hostile}, turn_key="k<script>")
    for path, query in (
        ("/branch", {}),
        ("/branch/turns", {}),
        ("/branch/turn", {"turn": 1}),
        ("/branch/turn/message", {"turn": 1, "message": 3}),
    ):
        html = await site.get(path, conversation="c", **query)
        assert "<script>a" not in html and 'href="javascript' not in html
        assert not re.search("[\x00-\x08\x0e-\x1f\u202e\ud800]", html)
    shown = await site.get("/branch/turn", conversation="c", turn=1)
    assert "\\ud800 \\x1b[2J\\u202e" in shown


async def test_outlines_are_bounded_and_of_one_tenant(client: ContextClient, pool: Pool) -> None:
    branch = await recorded(client, 3)
    assert [one.turn_no for one in await branch.turn_outlines(2, 400)] == [2, 3]
    assert await turn_outlines(pool, "other", branch.branch_uuid, 1, 3) == ()
    with pytest.raises(InvalidArgument, match="500 are read at once"):
        await branch.turn_outlines(1, 501)


async def test_artifacts_of_a_turn_are_what_came_with_it(client: ContextClient) -> None:
    branch = await recorded(client, 1)
    put = await branch.put_artifact("one", name="notes")
    again = await branch.put_artifact("two", name="notes")
    await branch.record_turn([{"role": "user", "content": "?"}, *exchange("1", "word " * 5_000)])
    assert [one.handle for one in await branch.artifacts_of_turn(1)] == [put.handle, again.handle]
    (brought,) = await branch.artifacts_of_turn(2)
    assert brought.source == "message" and await branch.artifacts_of_turn(3) == ()


def test_a_message_of_very_many_parts_stays_small() -> None:
    parts = tuple({"type": "text", "text": "<&" * 5_000} for _ in range(3_000))
    calls = tuple(ToolCall(id=str(n), name="n" * 9_000, arguments="{}") for n in range(500))
    messages = [
        Message(role="user", content=parts),
        *(Message(role="assistant", tool_calls=calls) for _ in range(60)),
    ]
    shown = shown_messages(messages, [], 1)
    pieces = [piece for one in shown for piece in one.pieces]
    assert len(shown) == 50 and sum(len(piece.text) for piece in pieces) <= 60_000
    assert sum(len(piece.label) for piece in pieces) <= 40_000
    assert shown[0].more == 2_996 and all(one.is_cut for one in shown)


async def test_a_very_long_search_is_cut(site: Site, client: ContextClient) -> None:
    await (await client.open_branch("c")).record_turn(chat("Where?", "There."))
    page = await site.get("/branch/turns", conversation="c", q="x" * 20_000)
    assert "0 found" in page and len(page) < 20_000
