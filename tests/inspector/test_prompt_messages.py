"""Messages of the next prompt: hostile, long, very many, with pictures."""

import base64
import re

import pytest

from durable_context import Branch, Budget, ContextClient
from durable_context.inspector import long_text
from durable_context.inspector.links import link
from durable_context.inspector.long_text import FOLDED, HEAD, excerpts, piece
from durable_context.inspector.shown_prompt import marked, shown_messages, words_asked
from tests.inspector.conftest import Site
from tests.inspector.hostile import HOSTILE, LONE, PNG, check_page, text_of, values_of
from tests.inspector.prompts import said
from tests.turns import chat, exchange, numbered

AT = {"conversation": "conversation"}


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def record(branch: Branch, turns: int) -> None:
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))


async def test_whatever_messages_hold_is_text(site: Site, branch: Branch) -> None:
    await branch.record_turn(chat(HOSTILE, LONE + HOSTILE))
    await branch.record_turn([*chat("go", "on")[:1], *exchange("c<b>", HOSTILE, arg=HOSTILE)])
    for provider in ("openai", "anthropic", "gemini"):
        asked = {"message": HOSTILE, "instructions": HOSTILE, "format": provider}
        page = await site.get("/branch/prompt", **AT, **asked)
        check_page(page)
        assert "\\x1b[31mred" in page and "<b>" not in page
        check_page(await site.get("/branch/prompt/message", **AT, **asked, place="0.0.0"))


async def test_a_long_message_is_there_on_demand_piece_by_piece(
    site: Site, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_text, "PIECE", 9_000)
    text = "".join(f"{n:07d}_" for n in range(30_000 // 8))
    page = await site.get("/branch/prompt", **AT, message=text[:9_000])
    check_page(page)
    assert said(page) == [text[:9_000]]  # under a fold
    page = await site.get("/branch/prompt", **AT, message=text)
    check_page(page)
    [got] = said(page)
    [place] = values_of(page, "button", "value")
    pieces = 0
    while place:
        asked = {"message": text, "place": place, "head_turn": 0}
        part = await site.http.get(
            link("/branch/prompt/message", **AT, **asked), headers={"hx-request": "true"}
        )
        assert "<html" not in part.text
        got += "".join(re.findall(r"<pre>(.*?)</pre>", part.text, re.DOTALL))
        place = next(iter(values_of(part.text, "button", "value")), "")
        pieces += 1
    assert (got, pieces) == (text, 4)
    alone = await site.get("/branch/prompt/message", **AT, message=text, place="0.0.9000")
    check_page(alone)
    assert "characters 9,001 to 18,000 of 30,000" in text_of(alone)


async def test_pieces_are_of_the_prompt_that_was_shown(site: Site, branch: Branch) -> None:
    await record(branch, 2)
    asked = {"message": "go", "place": "0.0.0"}
    moved = await site.get("/branch/prompt/message", **AT, **asked, head_turn=1, expect=400)
    assert "the branch has gone on to turn 2" in moved
    for place in ("99.0.0", "0.9.0", "x", "1.2", "0.0.-1", ""):
        asked = {"message": "go", "place": place}
        await site.get("/branch/prompt/message", **AT, **asked, expect=400)


async def test_a_prompt_of_very_many_messages_is_shown_in_part(site: Site, branch: Branch) -> None:
    calls = [one for n in range(150) for one in exchange(f"c{n}", f"result {n} {'x' * 2_000}")]
    await branch.record_turn([*chat("go", "on")[:1], *calls])
    prepared = await branch.prepare("go on", budget=Budget(max_tokens=1_000_000))
    assert prepared and len(shown_messages(prepared, "openai")) > 200
    page = await site.get("/branch/prompt", **AT, message="go on", budget=1_000_000)
    check_page(page)
    assert "messages are left out here" in page and "go on" in said(page)


async def test_a_picture_is_named_with_a_link_to_it(site: Site, branch: Branch) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": url}}]
    await branch.record_turn([{"role": "user", "content": parts}, *chat("", "A dot.")[1:]])
    page = await site.get("/branch/prompt", **AT, message="What is it?")
    check_page(page)
    [kept] = await branch.artifacts()
    assert f"handle={kept.handle}" in "".join(values_of(page, "a", "href"))


def test_texts_are_cut_at_words_and_fold_as_long_as_there_is_room() -> None:
    long = "word " * (FOLDED // 5)
    first, second, third = excerpts([long, "short", long], room=len(long) + 100)
    assert first.head + first.folded == long and HEAD // 2 < len(first.head) <= HEAD
    assert (second.head, second.folded, second.left) == ("short", "", 0)
    assert third.folded == "" and third.left == len(long) - len(third.head)
    assert piece("abc", 9) == ("", 3, 3, 3) and piece("abc", 1).text == "bc"


def test_words_are_found_in_other_forms_and_no_word_in_another() -> None:
    words = words_asked("Where are the shipment reports for alpha.beta?")
    assert "where" not in words and "shipment" in words
    text = "Shipments and reports; transshipment of alpha.beta"
    found = [piece for piece, is_word in marked(text, words) if is_word]
    assert found[:2] == ["Shipments", "reports"] and "transshipment" not in found
    assert "".join(piece for piece, _ in marked(text, words)) == text
