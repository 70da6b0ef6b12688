"""The tree of a conversation."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from uuid import uuid4

from durable_context import CompactionPolicy, ContextClient
from durable_context.inspector.branch_rows import LANES, BranchRow, branch_rows
from durable_context.inspector.conversation_page import SHOWN
from durable_context.models import BranchInfo
from tests.inspector.conftest import Site
from tests.turns import numbered

LARGEST = 300_000
POLICY = CompactionPolicy()


def info(branch_id: str, parent_id: str | None = None, **figures: int) -> BranchInfo:
    numbers = {"head_turn": 10, "checkpoint_turn": 0} | figures
    fork_turn = figures.get("fork_turn", 5) if parent_id else None
    made_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(
        seconds=int.from_bytes(branch_id.encode()) % 9
    )
    return BranchInfo(
        conversation_id="c",
        branch_id=branch_id,
        branch_uuid=uuid4(),
        parent_id=parent_id,
        created_at=made_at,
        last_turn_at=None,
        **(numbers | {"fork_turn": fork_turn}),  # type: ignore[arg-type]
    )


def names(rows: list[BranchRow]) -> list[tuple[str, int]]:
    return [(row.info.branch_id, row.depth) for row in rows]


def branches_of(shown: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'</svg><a href="/branch[^>]*>(.*?)</a>', shown)]


def test_forks_stand_below_what_they_were_forked_from_by_turn() -> None:
    infos = [
        info("main"),
        info("late", "main", fork_turn=9),
        info("early", "main", fork_turn=2),
        info("of early", "early", fork_turn=7),
        info("second root"),
    ]
    found = names(branch_rows(infos, POLICY))
    assert [name for name in found if name[0] != "second root"] == [
        ("main", 0),
        ("early", 1),
        ("of early", 2),
        ("late", 1),
    ]
    assert ("second root", 0) in found


def test_lines_lead_from_each_branch_to_its_forks() -> None:
    infos = [info("a"), info("b", "a", fork_turn=1), info("c", "b"), info("d", "a", fork_turn=2)]
    assert [row.path for row in branch_rows(infos, POLICY)] == [
        "M7 15V30",
        "M7 0V30M7 15H21M21 15V30",
        "M7 0V30M21 0V15M21 15H35",
        "M7 0V15M7 15H21",
    ]


def test_a_chain_of_thousands_of_forks_stays_narrow() -> None:
    infos = [info("0"), *(info(str(n), str(n - 1)) for n in range(1, 3_000))]
    rows = branch_rows(infos, POLICY)
    assert [row.depth for row in rows] == list(range(3_000))
    assert max(row.width for row in rows) == (LANES + 1) * 14


def test_what_waits_is_told_by_what_a_branch_counts() -> None:
    figures = {"head_tokens": 12_000, "checkpoint_tokens": 2_000, "checkpoint_turn": 0}
    [row] = branch_rows([info("a", **figures)], POLICY)
    assert (row.waiting, row.waiting_tokens, row.is_behind) == (8, 8_000, True)
    [row] = branch_rows([info("a", head_turn=0)], POLICY)
    assert (row.waiting, row.waiting_tokens, row.is_behind) == (0, 0, False)


async def test_the_tree_tells_forks_pauses_and_own_turns(site: Site, client: ContextClient) -> None:
    main = await client.open_branch("a/b <i>")
    for turn in range(1, 11):
        await main.record_turn(numbered(turn))
    fork = await main.fork("what if\u202e?", at_turn=7)
    await fork.record_turn(numbered(8))
    await fork.pause("<b>wait</b>")
    empty = await main.fork("nothing of its own")
    shown = await site.get("/conversation", conversation="a/b <i>")
    assert branches_of(shown) == ["main", "what if\\u202e?", empty.branch_id]
    assert "3 branches, the longest with 10 turns" in shown and "1 paused" in shown
    assert "paused: &lt;b&gt;wait&lt;/b&gt;" in shown and "<b>" not in shown and "<i>" not in shown
    assert 'aria-label="1 own turns, compacted to turn 0"' in shown
    for path in re.findall(r'href="(/branch\?[^"]*)"', shown):
        assert (await site.http.get(unescape(path))).status_code == 200


async def test_hundreds_of_branches_come_in_pages_and_are_found_by_id(
    site: Site, client: ContextClient
) -> None:
    main = await client.open_branch("c")
    await main.record_turn(numbered(1))
    for number in range(SHOWN + 20):
        await main.fork(f"try-{number}", at_turn=1)
    first = await site.get("/conversation", conversation="c")
    assert len(first.encode()) < LARGEST
    [following] = re.findall(r'href="(/conversation[^"]*from=[^"]*)"', first)
    second = (await site.http.get(unescape(following))).text
    assert len({*branches_of(first), *branches_of(second)}) == SHOWN + 21
    assert branches_of(await site.get("/conversation", conversation="c", q="TRY-77")) == ["try-77"]
    assert "No branch has" in await site.get("/conversation", conversation="c", q="<b>")


async def test_bad_input_is_named(site: Site, client: ContextClient) -> None:
    await client.open_branch("c")
    assert "no conversation" in await site.get("/conversation", expect=400)
    assert "&lt;i&gt;" in await site.get("/conversation", expect=404, conversation="<i>")
    for begin in ("-1", "x", "9" * 11):
        answer = await site.get("/conversation", expect=400, conversation="c", **{"from": begin})
        assert "from=" in answer
    assert "from here on" in await site.get("/conversation", conversation="c", **{"from": 5})
