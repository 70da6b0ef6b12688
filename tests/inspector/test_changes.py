"""What pages change with --allow-changes, and that they tell what came of it."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from html import unescape
from typing import Any

import pytest
from temporalio.client import Client

from durable_context import ContextClient
from durable_context.database import Pool
from durable_context.errors import CompactionFailed
from durable_context.inspector import notes
from durable_context.inspector.notes import KEPT, Notes
from tests.compacting import compact_all
from tests.default_worker import default_worker
from tests.inspector.conftest import Site
from tests.turns import numbered

MakeSite = Callable[..., Site]
SAME_ORIGIN = {"Origin": "http://127.0.0.1:8234"}
HOSTILE = "<script>alert(1)</script>"


class Forms:
    """Sends the forms of a site and reads the pages that they go back to."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def send(self, action: str, *, back: str = "/", expect: int = 303, **fields: Any) -> str:
        """The note, without its markup."""
        form = {"key": await self._key(), "conversation": "orders", "back": back} | fields
        http = self._site.http
        answer = await http.post(action, data=form, headers=SAME_ORIGIN)
        assert answer.status_code == expect, answer.text
        if expect != 303:
            return answer.text
        location = answer.headers["location"]
        assert location.startswith(back.partition("?")[0])
        shown = await http.get(location)
        assert shown.status_code == 200
        [note] = re.findall(r'<p class="note[^"]*" role=[^>]*>(.*?)</p>', shown.text)
        return unescape(note)

    async def revert(self, to: object, **fields: Any) -> str:
        """By way of the page that asks first."""
        asks = await self._site.get("/branch/confirm-revert", conversation="orders", to=to)
        seen = re.findall(r'name="seen" value="([^"]+)"', asks)
        return await self.send("/branch/revert", to=str(to), seen=seen[0], **fields)

    async def _key(self) -> str:
        found = re.search(
            r'name="key" value="([^"]+)"', await self._site.get("/branch", conversation="orders")
        )
        assert found is not None
        return found[1]


@pytest.fixture
async def orders(client: ContextClient, pool: Pool) -> AsyncIterator[Any]:
    """A branch of 21 turns, compacted up to turn 18."""
    branch = await client.open_branch("orders")
    for turn in range(1, 22):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid)
    yield branch


@pytest.fixture
def changing(make_site: MakeSite) -> Site:
    return make_site(allow_changes=True)


@pytest.fixture
def forms(changing: Site) -> Forms:
    return Forms(changing)


async def test_read_only_pages_have_no_forms_that_change(site: Site, orders: Any) -> None:
    for path in ("/branch", "/branch/turns", "/conversation"):
        shown = await site.get(path, conversation="orders")
        assert 'method="post"' not in shown and "confirm-" not in shown
        assert "read-only" in shown
    await site.get("/branch/confirm-revert", expect=404, conversation="orders", to=6)


async def test_a_branch_is_paused_and_resumed(forms: Forms, orders: Any) -> None:
    told = await forms.send("/branch/pause", because=f" {HOSTILE} ")
    assert told == f"Branch main is paused: nothing of it is compacted ({HOSTILE})."
    [pause] = await orders.pauses()
    assert pause.because == HOSTILE
    told = await forms.send("/branch/resume")
    assert told == "Branch main goes on; the next turn or sweep compacts it."
    assert await orders.pauses() == ()
    assert "Not done: " in await forms.send("/branch/pause", because="x" * 501)
    assert await orders.pauses() == ()


async def test_a_tenants_pause_is_not_ended_with_a_branch(
    forms: Forms, orders: Any, client: ContextClient
) -> None:
    await client.pause()
    assert "its tenant is paused still" in await forms.send("/branch/resume")


async def test_a_turn_and_a_fact_are_pinned_and_unpinned(forms: Forms, orders: Any) -> None:
    assert await forms.send("/branch/pin", turn="3") == "Turn 3 is pinned."
    assert await forms.send("/branch/pin", turn="3", fact="SHP-0003") == (
        "'SHP-0003' of turn 3 is pinned."
    )
    assert [(pin.turn_no, pin.value) for pin in await orders.pins()] == [(3, None), (3, "SHP-0003")]
    assert await forms.send("/branch/unpin", turn="3") == "Turn 3 is not pinned any more."
    assert await forms.send("/branch/unpin", turn="3") == "Turn 3 was not pinned."
    assert len(await orders.pins()) == 1
    for turn, said in (("99", "allowed are 1 to 21"), ("", "is missing"), ("-1", "whole number")):
        told = await forms.send("/branch/pin", turn=turn)
        assert told.startswith("Not done: ") and said in told
    assert len(await orders.pins()) == 1


async def test_a_revert_asks_first_and_says_what_it_would_reject(
    changing: Site, forms: Forms, orders: Any
) -> None:
    before = await orders.checkpoints(replaced=True)
    shown = await changing.get("/branch/confirm-revert", conversation="orders", to=6)
    assert "checkpoint of turn 6" in shown and "2 checkpoints rejected" in shown
    assert await orders.checkpoints(replaced=True) == before
    told = await forms.revert(6, because="wrong figures")
    assert told == (
        "Branch main went back to the checkpoint of turn 6; rejected are 2 checkpoints,"
        " 2 summaries."
    )
    assert [one.turn_no for one in await orders.checkpoints()] == [6]
    shown = await changing.get("/branch/confirm-revert", conversation="orders", to=6)
    assert "nothing would change" in shown and 'action="/branch/revert"' not in shown
    told = await forms.revert(0)
    assert told.startswith("Branch main went back to no checkpoint; rejected are 1 checkpoints")


async def test_an_old_form_reverts_no_more_than_its_page_said(
    changing: Site, forms: Forms, orders: Any, pool: Pool
) -> None:
    asks = await changing.get("/branch/confirm-revert", conversation="orders", to=12)
    [seen] = re.findall(r'name="seen" value="([^"]+)"', asks)
    assert "1 checkpoint rejected" in asks
    for turn in range(22, 28):
        await orders.record_turn(numbered(turn))
    await compact_all(pool, orders.branch_uuid)
    before = await orders.checkpoints()
    for old in ({"seen": seen}, {}):
        told = await forms.send("/branch/revert", to="12", **old)
        assert told.startswith("Not done: the branch has changed since")
    assert await orders.checkpoints() == before


async def test_a_checkpoint_may_be_named_by_its_id(
    changing: Site, forms: Forms, orders: Any
) -> None:
    first = (await orders.checkpoints())[0]
    shown = await changing.get(
        "/branch/confirm-revert", conversation="orders", to=first.checkpoint_id
    )
    assert f'name="to" value="{first.checkpoint_id}"' in shown
    told = await forms.revert(first.checkpoint_id)
    assert "turn 6" in told
    for to in ("5", "", "x<b>"):
        assert (await forms.send("/branch/revert", to=to)).startswith("Not done: ")
    for to, status in ((5, 404), ("", 400), ("x<b>", 400)):
        shown = await changing.get(
            "/branch/confirm-revert", expect=status, conversation="orders", to=to
        )
        assert "<b>" not in shown


async def test_a_form_goes_back_to_its_page_and_nowhere_else(
    changing: Site, forms: Forms, orders: Any
) -> None:
    back = "/branch/turns?conversation=orders&branch=main&from=1"
    assert await forms.send("/branch/pin", turn="1", back=back) == "Turn 1 is pinned."
    shown = await changing.get("/branch/turns", conversation="orders", **{"from": 1})
    backs = {unescape(found) for found in re.findall(r'name="back" value="([^"]*)"', shown)}
    assert backs <= {"/branch/turns?conversation=orders&from=1"}
    key = re.findall(
        r'name="key" value="([^"]+)"', await changing.get("/branch", conversation="orders")
    )[0]
    for elsewhere in (
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "javascript:1",
    ):
        form = {"key": key, "conversation": "orders", "turn": "2", "back": elsewhere}
        answer = await changing.http.post("/branch/pin", data=form, headers=SAME_ORIGIN)
        assert re.match(r"/(?![/\\])", answer.headers["location"])


async def test_a_part_that_htmx_asked_for_goes_back_to_the_whole_page(
    changing: Site, orders: Any
) -> None:
    page = "http://127.0.0.1:8234/branch?conversation=orders&note=old"
    headers = {"HX-Request": "true", "HX-Current-URL": page}
    shown = await changing.http.get("/branch/turn?conversation=orders&turn=2", headers=headers)
    backs = set(re.findall(r'name="back" value="([^"]*)"', shown.text))
    assert backs <= {"/branch?conversation=orders"}


async def test_what_temporal_cannot_be_asked_is_told(forms: Forms, orders: Any) -> None:
    for action in ("/branch/compact", "/branch/rebuild"):
        told = await forms.send(action)
        assert told.startswith("Not done: ") and "temporal=None" in told


async def test_a_branch_that_is_not_there_changes_nothing(forms: Forms, orders: Any) -> None:
    shown = await forms.send("/branch/pause", expect=404, conversation="<i>nowhere")
    assert "&lt;i&gt;nowhere" in shown
    await forms.send("/branch/pause", expect=400, conversation="")
    assert await orders.pauses() == ()


async def test_compact_and_rebuild_are_done_by_temporal(
    make_site: MakeSite,
    make_client: Callable[..., Any],
    temporal: Client,
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notes, "PROMPT_SECONDS", 60)
    client = await make_client(temporal=temporal)
    branch = await client.open_branch("orders")
    for turn in range(1, 10):
        await branch.record_turn(numbered(turn))
    site = make_site(client=client, allow_changes=True)
    forms = Forms(site)
    shown = await site.get("/branch/confirm-rebuild", conversation="orders")
    assert "has no summaries of these turns" in shown and "/branch/rebuild" not in shown
    async with default_worker(temporal, pool):
        told = await forms.send("/branch/compact", focus="")
        assert told.startswith("Compacted in 1 pass by extractive/1") or "Nothing is due" in told
        assert (await branch.inspect()).checkpoint.turn_no == 6
        shown = await site.get("/branch/confirm-rebuild", conversation="orders", to=6)
        assert "1 summary would be made anew" in shown
        shown = await site.get("/branch/confirm-rebuild", conversation="orders")
        assert 'type="hidden" name="to" value="6"' in shown
        told = await forms.send("/branch/rebuild", to="6", focus="depots")
        assert told.startswith("Made 1 summary anew")
    assert len(await branch.summaries()) == 1
    assert len(await branch.summaries(replaced=True)) == 2


async def test_what_takes_long_is_told_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "PROMPT_SECONDS", 0)
    kept, done = Notes(), asyncio.Event()

    async def work() -> str:
        await done.wait()
        raise CompactionFailed("the model said no")

    note = await kept.of(work(), "under way")
    assert (note.text, note.state) == ("under way", "running")
    done.set()
    await asyncio.gather(*kept._running)
    found = kept.get(note.note_id)
    assert found is not None and (found.text, found.state) == ("the model said no", "failed")


async def test_notes_are_not_kept_for_ever_and_end_with_the_server() -> None:
    kept = Notes()

    async def quick() -> str:
        return "done"

    first = await kept.of(quick(), "")
    for _ in range(KEPT):
        last = await kept.of(quick(), "")
    assert kept.get(first.note_id) is None and kept.get(last.note_id) == last
    ended = asyncio.Event()
    assert (await kept.of(quick(), "")).text == "done"

    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    asking = asyncio.create_task(kept.of(endless(), ""))
    await asyncio.wait([asking], timeout=0)
    for _ in range(KEPT + 1):
        await kept.of(quick(), "")
    [running] = [note for note in kept._notes.values() if note.state == "running"]
    assert kept.get(running.note_id) == running
    await kept.close()
    assert await asking == running
    assert ended.is_set()


async def test_an_address_puts_no_words_into_a_note(changing: Site) -> None:
    shown = await changing.get("/", note="Branch main was deleted")
    assert "deleted" not in shown and 'class="note' not in shown
