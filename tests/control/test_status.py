"""All branches of a tenant at a glance."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import NodeRange
from durable_context.control.status import BranchStatus
from durable_context.database import Pool
from durable_context.errors import InvalidArgument, InvalidId
from tests.compacting import compact_all
from tests.compaction.test_compactor import record
from tests.turns import numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
BRANCHES = 100_000


async def names(client: ContextClient, **options: Any) -> list[str]:
    return [one.conversation_id for one in (await client.status(**options)).branches]


async def only(client: ContextClient, conversation_id: str) -> BranchStatus:
    [found] = (await client.status(conversation_id=conversation_id)).branches
    return found


async def failed(pool: Pool, branch: Branch, error: str) -> None:
    store = CompactionStore(pool, "default", branch.branch_uuid)
    leaf = NodeRange(level=0, from_turn=1, to_turn=6)
    compaction_id = await store.join_compaction(leaf, 600, "turn", RunId())
    async with pool.acquire() as connection:
        await connection.execute(
            "update durable_context.compactions set status = 'failed', error = $2,"
            " finished_at = now() where compaction_id = $1",
            compaction_id,
            error,
        )


async def test_a_branch_shows_how_far_it_is_behind(client: ContextClient, pool: Pool) -> None:
    branch = await client.open_branch("orders")
    await record(branch, 17)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 5)
    found = await only(client, "orders")
    state = await branch.inspect()
    assert (found.branch_id, found.branch_uuid) == ("main", branch.branch_uuid)
    assert (found.head_turn, found.checkpoint_turn) == (22, 12)
    assert found.lag.turns == state.lag.turns == 8
    assert found.lag.tokens == state.lag.tokens > 0
    assert 0 < found.lag.seconds < state.lag.seconds + 60
    assert found.is_behind and found.last_turn_at is not None
    assert (found.running, found.failed, found.pins, found.pauses) == (None, None, 0, ())
    made = await branch.compactions()
    assert found.balance == sum(one.balance for one in made)
    assert found.price == 0


async def test_one_long_turn_that_fills_a_segment_is_a_lag(client: ContextClient) -> None:
    branch = await client.open_branch("long")
    await branch.record_turn([{"role": "user", "content": "one word more " * 3_000}])
    await record(branch, 2)
    found = await only(client, "long")
    assert found.lag.tokens == (await branch.inspect()).lag.tokens > 8_000
    assert found.is_behind


async def test_what_need_not_be_compacted_is_no_lag(client: ContextClient, pool: Pool) -> None:
    await client.open_branch("empty")
    short = await client.open_branch("short")
    await record(short, 7)
    run = await client.open_branch("run")
    await run.record_turn(numbered(1), continues=True)
    for turn in range(2, 8):
        step = {"role": "assistant", "content": f"step {turn}"}
        await run.record_turn([step], continues=True)
    for name, turns in (("empty", 0), ("short", 5), ("run", 0)):
        found = await only(client, name)
        assert (found.lag.turns, found.is_behind) == (turns, False)
        assert (found.lag.seconds > 0) == (turns > 0)


async def test_a_fork_has_the_lag_of_what_it_inherits(client: ContextClient, pool: Pool) -> None:
    main = await client.open_branch("orders")
    await record(main, 14)
    await compact_all(pool, main.branch_uuid)
    await main.fork("idea", at_turn=11)
    page = await client.status(conversation_id="orders")
    assert {one.branch_id: (one.checkpoint_turn, one.lag.turns) for one in page.branches} == {
        "main": (12, 0),
        "idea": (6, 3),
    }
    [idea] = [one for one in page.branches if one.branch_id == "idea"]
    assert idea.lag.seconds > 0 and idea.balance == 0


async def test_a_long_tail_is_not_read_whole(client: ContextClient) -> None:
    branch = await client.open_branch("long")
    await record(branch, 230)
    found = await only(client, "long")
    exact = (await branch.inspect()).lag
    assert found.is_behind and found.lag.turns == exact.turns == 228
    assert found.lag.tokens == pytest.approx(exact.tokens, rel=0.02)
    assert 0 < found.lag.seconds < exact.seconds + 60


async def test_conversations_are_found_by_how_their_ids_begin(client: ContextClient) -> None:
    for name in ("order-1", "order-2", "order-10", "Order-1", "50%_off", "a\\b"):
        await record(await client.open_branch(name), 1)
    for beginning, found in (
        ("order-1", {"order-1", "order-10"}),
        ("order", {"order-1", "order-2", "order-10"}),
        ("50%", {"50%_off"}),
        ("a\\", {"a\\b"}),
        ("_", set[str]()),
    ):
        page = await client.status(beginning=beginning)
        assert {one.conversation_id for one in page.branches} == found
        assert page.totals is not None and page.totals.branches == len(found)
    with pytest.raises(InvalidId):
        await client.status(beginning="\ud800")
    with pytest.raises(InvalidArgument, match="one of them"):
        await client.status(beginning="a", conversation_id="a")


async def test_those_furthest_behind_come_first_page_by_page(client: ContextClient) -> None:
    for turns in (3, 9, 20, 14, 2):
        await record(await client.open_branch(f"of {turns}"), turns)
    expected = ["of 20", "of 14", "of 9", "of 3", "of 2"]
    assert await names(client) == expected
    found: list[str] = []
    after = None
    while True:
        page = await client.status(limit=2, after=after)
        assert (page.totals is None) == (after is not None)
        found += [one.conversation_id for one in page.branches]
        after = page.after
        if after is None:
            break
    assert found == expected
    assert await names(client, only="behind") == ["of 20", "of 14", "of 9"]


async def test_running_and_failed_compactions_are_shown_with_their_words(
    client: ContextClient, pool: Pool
) -> None:
    broken, busy, mended = [await client.open_branch(name) for name in ("broken", "busy", "mended")]
    for branch in (broken, busy, mended):
        await record(branch, 9)
    await failed(pool, broken, "no quota")
    await failed(pool, mended, "no quota")
    await compact_all(pool, mended.branch_uuid)
    store = CompactionStore(pool, "default", busy.branch_uuid)
    await store.join_compaction(NodeRange(level=0, from_turn=1, to_turn=6), 9, "turn", RunId("w"))
    assert await names(client, only="failed") == ["broken"]
    assert await names(client, only="running") == ["busy"]
    failure = (await only(client, "broken")).failed
    assert failure is not None and (failure.error, failure.to_turn) == ("no quota", 6)
    running = (await only(client, "busy")).running
    assert running is not None and running.workflow_id == "w"
    assert (await only(client, "mended")).failed is None
    totals = (await client.status()).totals
    assert totals is not None
    assert (totals.branches, totals.behind, totals.running, totals.failed) == (3, 2, 1, 1)


async def test_pauses_and_pins_are_shown(client: ContextClient) -> None:
    still, other = await client.open_branch("still"), await client.open_branch("other")
    await record(still, 2)
    await still.pin(1)
    await still.pause("a trial")
    found = await only(client, "still")
    assert [(pause.of, pause.because) for pause in found.pauses] == [("branch", "a trial")]
    assert found.pins == 1
    assert await names(client, only="paused") == ["still"]
    await client.pause()
    assert [pause.of for pause in (await only(client, other.conversation_id)).pauses] == ["tenant"]
    totals = (await client.status()).totals
    assert totals is not None and totals.paused == 2


async def test_totals_add_up_what_the_branches_show(client: ContextClient, pool: Pool) -> None:
    for name, turns in (("a", 26), ("b", 9), ("c", 1)):
        branch = await client.open_branch(name)
        await record(branch, turns)
        await compact_all(pool, branch.branch_uuid)
        await record(branch, 8)
    page = await client.status()
    assert page.totals is not None
    shown, totals = page.branches, page.totals
    assert totals.branches == 3
    assert totals.turns == sum(one.head_turn for one in shown) == 60
    assert totals.lag_turns == sum(one.lag.turns for one in shown)
    assert totals.lag_tokens == sum(one.lag.tokens for one in shown)
    assert totals.balance == sum(one.balance for one in shown) != 0
    assert (totals.price, totals.unpriced) == (Decimal(0), 0)
    one = (await client.status(conversation_id="a", limit=0)).totals
    assert one is not None and (one.branches, one.turns) == (1, 34)


async def test_tenants_see_their_own(
    client: ContextClient, make_client: Callable[..., Any], pool: Pool
) -> None:
    branch = await client.open_branch("orders")
    await record(branch, 9)
    await compact_all(pool, branch.branch_uuid)
    other: ContextClient = await make_client(tenant="other")
    page = await other.status()
    assert page.branches == () and page.totals is not None
    assert (page.totals.branches, page.totals.balance, page.after) == (0, 0, None)
    assert await other.compactions() == ()
    [mine] = await client.compactions()
    assert (mine.conversation_id, mine.branch_id, mine.status) == ("orders", "main", "completed")


async def test_what_is_asked_is_checked(client: ContextClient) -> None:
    with pytest.raises(InvalidArgument, match="only='late'; allowed are 'behind', 'failed'"):
        await client.status(only="late")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="after='page 2'"):
        await client.status(after="page 2")
    with pytest.raises(InvalidArgument, match="limit=-1"):
        await client.status(limit=-1)
    with pytest.raises(InvalidId):
        await client.status(conversation_id="")


async def test_a_hundred_thousand_branches_are_shown_in_a_blink(
    make_client: Callable[..., Any], connection: Connection
) -> None:
    policy = CompactionPolicy(debounce=timedelta(0))
    client: ContextClient = await make_client(policy)
    await fill(connection)
    took: dict[str, float] = {}
    asked: dict[str, dict[str, Any]] = {
        "first page": {},
        "failed": {"only": "failed"},
        "running": {"only": "running"},
        "one conversation": {"conversation_id": "conversation 77"},
    }
    for name, options in asked.items():
        begun = time.perf_counter()
        page = await client.status(**options)
        took[name] = time.perf_counter() - begun
        assert page.totals is not None and page.branches
    begun = time.perf_counter()
    page = await client.status()
    page = await client.status(after=page.after)
    took["first and second page"] = time.perf_counter() - begun
    assert len(page.branches) == 100
    shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items())
    sys.stdout.write(f"status of {BRANCHES:,} branches: {shown}\n")
    assert max(took.values()) < 5


async def fill(connection: Connection) -> None:
    """Each branch with two compactions; every hundredth fails, every thousandth runs."""
    await connection.execute(
        "insert into durable_context.branches (tenant, conversation_id, branch_id, encoding,"
        " text_search, head_turn, head_tokens, checkpoint_turn, checkpoint_tokens, last_turn_at)"
        " select 'default', 'conversation ' || n, 'main', 'o200k_base', 'english',"
        " 12 + n % 50, (12 + n % 50) * 100, 12, 1200, now() from generate_series(1, $1) n",
        BRANCHES,
    )
    await connection.execute("set session_replication_role = replica")  # events are not asked for
    await connection.execute(
        "insert into durable_context.compactions (tenant, branch_uuid, from_turn, to_turn, status,"
        " reason, saved_tokens, broken_tokens, head_turn, started_at, finished_at)"
        " select b.tenant, b.branch_uuid, s * 6 - 5, s * 6, case when s = 1 then 'completed'"
        " when b.head_turn = 12 then 'failed' when b.head_turn = 13 then 'running'"
        " else 'completed' end, 'turn', 300, 100, s * 6, now() + s * interval '1 minute', now()"
        " from durable_context.branches b, generate_series(1, 2) s"
    )
    await connection.execute("set session_replication_role = default")
    await connection.execute("analyze durable_context.branches, durable_context.compactions")
