"""Merges and upgrades that cannot pay are left out, and say why; leaves never are."""

from typing import Any, TypeAlias

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.store import MergeSizes
from durable_context.compaction.worth import merge_loss, note_skipped_node, upgrade_worth
from durable_context.contracts import NodeRange
from durable_context.database import Pool
from durable_context.models import Summary
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import Steps, record
from tests.rebuilding import RebuildSteps

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
POLICY = CompactionPolicy()
PAIRS = CompactionPolicy(segment_turns=1, fan_out=2, keep_raw_turns=0)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


async def idle(connection: Connection, branch: Branch, days: int = 31) -> None:
    await connection.execute(
        "update durable_context.branches set last_turn_at = now() - $2 * interval '1 day'"
        " where branch_uuid = $1",
        branch.branch_uuid,
        days,
    )


async def ranges(branch: Branch) -> list[tuple[int, int, int]]:
    return sorted((one.level, one.from_turn, one.to_turn) for one in await branch.summaries())


async def skipped(branch: Branch) -> list[tuple[str, int, int, int, str | None]]:
    return [
        (one.reason, one.level, one.from_turn, one.to_turn, one.error)
        for one in await branch.compactions()
        if one.status == "skipped"
    ]


def sizes(children: int, average: int, shown: int) -> MergeSizes:
    return MergeSizes(children, average, shown, 0, None)


def test_a_merge_pays_once_what_it_saves_covers_what_it_costs() -> None:
    four = sizes(children=400, average=100, shown=300)
    # Read 400, written 100 at five times that, 300 read anew: 1,200. Saved: 300 a call.
    assert merge_loss(four, 4, POLICY, asks_model=True) is None
    why = "it costs 1200 tokens and saves 300 with each of about 3 calls"
    assert merge_loss(four, 3, POLICY, asks_model=True) == why
    # Without a model only what is read anew.
    assert merge_loss(four, 1, POLICY, asks_model=False) is None
    # Of large nodes no more than a node's 400 tokens stay: 8,000 - 400 saved, 16,000 cost.
    large = sizes(children=8_000, average=2_000, shown=6_000)
    assert merge_loss(large, 3, POLICY, asks_model=True) is None
    assert merge_loss(large, 2, POLICY, asks_model=True) is not None


async def test_an_idle_branch_gets_its_leaves_and_no_merge(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 26)
    await idle(connection, branch)
    assert await compact_all(pool, branch.branch_uuid) == 4
    assert await ranges(branch) == [(0, 1, 6), (0, 7, 12), (0, 13, 18), (0, 19, 24)]
    [(reason, level, first, last, why)] = await skipped(branch)
    assert (reason, level, first, last) == ("merge", 1, 1, 24)
    assert why is not None and why.startswith("nobody took a turn since ")
    events = [event async for event in branch.events() if event.kind == "compaction_skipped"]
    assert [event.data["error"] for event in events if "error" in event.data] == [why]
    assert [event.data["level"] for event in events if "error" in event.data] == [1]


async def test_what_piled_up_merges_once_somebody_is_back(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 26)
    await idle(connection, branch)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 6)
    await compact_all(pool, branch.branch_uuid)
    assert await ranges(branch) == [
        *((0, turn, turn + 5) for turn in (1, 7, 13, 19, 25)),
        (1, 1, 30),
    ]
    state = await branch.inspect()
    assert [(node.from_turn, node.to_turn) for node in state.frontier] == [(1, 30)]


async def test_a_branch_that_was_idle_for_less_merges(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 26)
    await idle(connection, branch, days=29)
    await compact_all(pool, branch.branch_uuid)
    assert (1, 1, 24) in await ranges(branch)
    assert await skipped(branch) == []


async def test_a_checkpoint_that_is_nearly_full_merges_whoever_is_away(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    small = CompactionPolicy(checkpoint_max_tokens=500, ledger_max_tokens=100)
    await record(branch, 26)
    await idle(connection, branch)
    await compact_all(pool, branch.branch_uuid, small)
    assert (1, 1, 24) in await ranges(branch)


async def test_a_model_is_asked_to_merge_when_enough_calls_are_to_come(
    client: ContextClient, pool: Pool
) -> None:
    """Of nodes of one size, here 18 tokens: a merge of n costs 2n + 4, and saves n - 1 a call."""
    asked, free = await client.open_branch("asked"), await client.open_branch("free")
    for branch in (asked, free):
        await record(branch, 5)
    summarizer = ScriptedSummarizer()
    steps = Steps(pool, asked, summarizer)
    while (plan := await steps.plan(PAIRS)).nodes:
        await steps.commit(plan, await steps.summarize(plan))
    await compact_all(pool, free.branch_uuid, PAIRS)
    assert [node for node in await ranges(asked) if node[0]] == [(1, 1, 4)]
    assert [(level, first, last) for _, level, first, last, _ in await skipped(asked)] == [
        (1, 1, 3),
        (1, 1, 2),
    ]
    assert (await skipped(asked))[0][4] == (
        f"it costs {10 * 18} tokens and saves {2 * 18} with each of about 3 calls"
    )
    assert [node for node in await ranges(asked) if not node[0]] == [
        node for node in await ranges(free) if not node[0]
    ]
    assert (1, 1, 2) in await ranges(free)


async def test_the_same_node_is_skipped_once(branch: Branch, pool: Pool) -> None:
    node = NodeRange(level=1, from_turn=1, to_turn=24)
    for why in ("too dear", "still too dear"):
        await note_skipped_node(pool, "default", branch.branch_uuid, node, "merge", why)
    await note_skipped_node(pool, "another", branch.branch_uuid, node, "upgrade", "not theirs")
    assert await skipped(branch) == [("merge", 1, 1, 24, "too dear")]
    [row] = await branch.compactions()
    assert (row.balance, row.attempts, row.price) == (0, 0, 0) and row.finished_at is not None


async def test_an_upgrade_pays_while_anybody_reads(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    first, second = await branch.summaries()
    assert await worth(pool, branch, first) is None
    fork = await branch.fork("idea", at_turn=9)
    await idle(connection, branch)
    assert await worth(pool, branch, first) is None  # the fork sees it
    why = await worth(pool, branch, second)
    assert why is not None and why.startswith("nobody took a turn since ")
    await idle(connection, fork)
    assert (await worth(pool, branch, first) or "").startswith("nobody took a turn since ")


async def worth(pool: Pool, branch: Branch, node: Summary, **changes: Any) -> str | None:
    asks_model = changes.pop("asks_model", True)
    node = node.model_copy(update=changes)
    return await upgrade_worth(pool, "default", branch.branch_uuid, node, asks_model=asks_model)


async def test_without_a_model_nothing_gets_better(branch: Branch, pool: Pool) -> None:
    await record(branch, 8)
    await compact_all(pool, branch.branch_uuid)
    [node] = await branch.summaries()
    assert await worth(pool, branch, node) is None
    same = "no model would be asked, and the same words would come out"
    assert await worth(pool, branch, node, asks_model=False) == same
    lost = "'model/openai:gpt-4o/1' wrote it, and no model would be asked now"
    by_model = {"made_by": "model/openai:gpt-4o/1", "asks_model": False}
    assert await worth(pool, branch, node, **by_model) == lost
    assert await worth(pool, branch, node, made_by="extractive/0", asks_model=False) is None


async def test_an_upgrade_that_cannot_pay_says_why_and_changes_nothing(
    branch: Branch, pool: Pool, connection: Connection
) -> None:
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await idle(connection, branch)
    before = await branch.summaries()
    summarizer = ScriptedSummarizer()
    assert await RebuildSteps(pool, branch.branch_uuid, summarizer).all() == []
    assert summarizer.asked == [] and await branch.summaries() == before
    assert sorted(row[:4] for row in await skipped(branch)) == [
        ("upgrade", 0, 1, 6),
        ("upgrade", 0, 7, 12),
    ]
