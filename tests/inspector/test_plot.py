"""The plot of a branch: sums per bucket, marks of compactions, and where all of it is drawn."""

import re
from datetime import timedelta
from itertools import pairwise

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.database import Pool
from durable_context.errors import InvalidArgument
from durable_context.inspector.plot import BARS, BUCKETS, LEFT, RIGHT, Plot, plot_of
from durable_context.looks.sizes import BranchSizes, SizeBucket, branch_sizes
from tests.compacting import compact_all
from tests.compaction.told import Told
from tests.inspector.conftest import Site
from tests.turns import chat, numbered


async def compacted(client: ContextClient, pool: Pool, turns: int) -> Branch:
    branch = await client.open_branch("c")
    for turn in range(1, turns + 1):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid)
    return branch


def drawn(*sizes: int, inherited: int = 0) -> Plot | None:
    """A plot of turns of these sizes, none of them compacted."""
    sums = [sum(sizes[: turn + 1]) for turn in range(len(sizes))]
    buckets = tuple(
        SizeBucket(
            from_turn=turn, to_turn=turn, tokens=size, largest=size, whole=sum_, carried=sum_
        )
        for turn, (size, sum_) in enumerate(zip(sizes, sums, strict=True), start=1)
    )
    return plot_of(
        BranchSizes(head_turn=len(sizes), inherited_turn=inherited, buckets=buckets, marks=())
    )


async def test_a_bucket_sums_its_turns_and_each_turn_is_in_one(
    client: ContextClient, pool: Pool
) -> None:
    branch = await compacted(client, pool, 25)
    turns = await branch.turn_outlines(1, 25)
    sizes = await branch.sizes(10)
    ranges = [(bucket.from_turn, bucket.to_turn) for bucket in sizes.buckets]
    assert ranges == [(first, min(first + 2, 25)) for first in range(1, 26, 3)]
    for bucket in sizes.buckets:
        inside = [turn.stored_tokens for turn in turns[bucket.from_turn - 1 : bucket.to_turn]]
        assert (bucket.tokens, bucket.largest) == (sum(inside), max(inside))
        assert bucket.whole == sum(turn.stored_tokens for turn in turns[: bucket.to_turn])


async def test_what_is_carried_is_the_newest_checkpoint_a_fork_would_have_and_what_follows(
    client: ContextClient, pool: Pool
) -> None:
    branch = await compacted(client, pool, 30)
    turns, checkpoints = await branch.turn_outlines(1, 30), await branch.checkpoints()
    for bucket in (await branch.sizes()).buckets:
        seen = [one for one in checkpoints if one.turn_no <= bucket.to_turn - 2]
        covered, tokens = (seen[-1].turn_no, seen[-1].token_count) if seen else (0, 0)
        tail = sum(turn.stored_tokens for turn in turns[covered : bucket.to_turn])
        assert bucket.carried == tokens + tail
    assert len(checkpoints) == 4


async def test_a_fork_has_its_ancestors_turns_and_marks(client: ContextClient, pool: Pool) -> None:
    parent = await compacted(client, pool, 20)
    fork = await parent.fork("fork", at_turn=14)
    for turn in range(15, 25):
        await fork.record_turn(numbered(turn * 2))
    await compact_all(pool, fork.branch_uuid)
    sizes = await fork.sizes()
    assert (sizes.head_turn, sizes.inherited_turn, len(sizes.buckets)) == (24, 14, 24)
    assert [mark.to_turn for mark in sizes.marks] == [6, 12, 18]
    of_parent = (await parent.sizes()).buckets[:14]
    assert [one.whole for one in sizes.buckets[:14]] == [one.whole for one in of_parent]


async def test_marks_tell_what_compactions_came_to_and_why(
    client: ContextClient,
    pool: Pool,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branch = await compacted(client, pool, 9)
    policy = CompactionPolicy(degrade_after=timedelta(0))
    for turn in range(10, 16):
        await branch.record_turn(numbered(turn))
    await compact_all(pool, branch.branch_uuid, policy, Told(fails_at=1))
    for reason in ("sweep", "sweep", "request"):
        await connection.execute(
            "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn,"
            " status, reason) values ('default', $1, 7, 12, 'failed', $2)",
            branch.branch_uuid,
            reason,
        )
    by_turn = (await branch.sizes()).marks
    told = [(mark.outcome, mark.to_turn, mark.count, mark.reasons) for mark in by_turn]
    assert told == [
        ("completed", 6, 1, (("turn", 1),)),
        ("degraded", 12, 1, (("turn", 1),)),
        ("failed", 12, 3, (("request", 1), ("sweep", 2))),
    ]
    newest = (await branch.compactions(1))[0].compaction_id
    assert by_turn[2].compaction_id == newest


async def test_sizes_of_another_tenants_branch_are_not_read(
    client: ContextClient, pool: Pool
) -> None:
    branch = await compacted(client, pool, 9)
    found = await branch_sizes(
        pool, "other", branch.branch_uuid, inherited_turn=0, keep_raw_turns=2, buckets=10
    )
    assert (found.head_turn, found.buckets, found.marks) == (0, (), ())


async def test_a_number_of_buckets_that_cannot_be_is_refused(client: ContextClient) -> None:
    branch = await client.open_branch("c")
    for buckets in (0, 401):
        with pytest.raises(InvalidArgument, match=f"buckets={buckets}; allowed are 1 to 400"):
            await branch.sizes(buckets)


async def test_a_long_branch_is_drawn_in_few_bars_each_mark_linked(
    site: Site, client: ContextClient, pool: Pool
) -> None:
    branch = await compacted(client, pool, BUCKETS + 10)
    html = await site.get("/branch", conversation="c")
    assert len(html) < 300_000
    assert html.count('<g class="column') == 105
    assert "turns 1–2: " in html and f"turns {BUCKETS + 9}–{BUCKETS + 10}: " in html
    mark = (await branch.sizes(BUCKETS)).marks[0]
    assert re.search(rf'href="/branch/compactions\?[^"]*#compaction-{mark.compaction_id}"', html)
    assert 'aria-label="Plot: turns 1–210: ' in html


async def test_ids_of_any_length_keep_the_page_small(site: Site, client: ContextClient) -> None:
    conversation = "ü" * 250
    branch = await client.open_branch(conversation, "é" * 250)
    for turn in range(1, 101):
        await branch.record_turn(numbered(turn))
    html = await site.get("/branch", conversation=conversation, branch="é" * 250)
    assert len(html) < 300_000 and html.count('<g class="column') == 100


def test_nothing_is_drawn_of_no_turns() -> None:
    assert drawn() is None


@pytest.mark.parametrize("sizes", [(120,), (120, 80), (1,), (4,) * 200, (5, 1_000_000, 3)])
def test_everything_is_inside_the_drawing(sizes: tuple[int, ...]) -> None:
    plot = drawn(*sizes)
    assert plot is not None and len(plot.bars) == len(sizes)
    for bar in plot.bars:
        assert bar.x >= LEFT and bar.x + bar.width <= RIGHT and bar.width > 0
        assert BARS[0] <= bar.top <= BARS[1] and BARS[0] <= bar.peak <= BARS[1]
    for line in (plot.whole, plot.carried):
        places = [tuple(map(float, place.split(","))) for place in line.split()]
        assert len(places) == 2 * len(sizes) and places[0][0] == LEFT and places[-1][0] == RIGHT
        assert all(plot.lines_top <= y <= plot.lines_bottom for _, y in places)
    assert plot.turn_ticks[0].label == "1" or len(plot.turn_ticks) > 1


def test_a_huge_turn_is_cut_off_and_the_others_stay_readable() -> None:
    plot = drawn(*[100] * 19, 60_000, *[100] * 19)
    assert plot is not None
    assert [bar.is_cut for bar in plot.bars].count(True) == 1
    assert plot.bars[19].is_cut and plot.highest is plot.bars[19]
    assert plot.bars[0].top < BARS[1] - 15
    assert "60,000 tokens" in plot.bars[19].title


@pytest.mark.parametrize("sizes", [(10, 3_010, 10), (*[100] * 38, 700)])
def test_few_turns_and_one_that_is_not_far_larger_are_drawn_whole(sizes: tuple[int, ...]) -> None:
    plot = drawn(*sizes)
    assert plot is not None and not plot.is_cut
    assert plot.highest.top == BARS[0]


async def test_the_legend_tells_of_a_bar_that_is_cut(site: Site, client: ContextClient) -> None:
    branch = await client.open_branch("c")
    for turn in range(1, 25):
        await branch.record_turn(numbered(turn))
    assert "cut-key" not in await site.get("/branch", conversation="c")
    await branch.record_turn(chat("word " * 5_000, "Read."))
    html = await site.get("/branch", conversation="c")
    assert html.count('class="break"') == html.count("cut-key") == 1
    assert "Neither line is the size of a prompt" in html


def test_axes_have_round_numbers_that_do_not_run_into_each_other() -> None:
    for head in (1, 2, 9, 39, 65, 210, 9_999, 10_000, 123_456):
        bucket = SizeBucket(
            from_turn=1, to_turn=head, tokens=head, largest=9, whole=head, carried=head
        )
        plot = plot_of(BranchSizes(head_turn=head, inherited_turn=0, buckets=(bucket,), marks=()))
        assert plot is not None
        places = [tick.at for tick in plot.turn_ticks]
        assert all(later - earlier > 24 for earlier, later in pairwise(places))
        assert 1 <= len(places) <= 11


def test_inherited_turns_end_where_the_fork_was_made() -> None:
    plot = drawn(*[100] * 10, inherited=4)
    assert plot is not None and plot.inherited is not None
    assert plot.bars[3].x < plot.inherited <= plot.bars[4].x
    whole = drawn(100, 100)
    assert whole is not None and whole.inherited is None
