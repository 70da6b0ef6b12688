"""A child compacts what it inherited into rows of its own, and pays for nothing twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from durable_context import Branch, ContextClient
from durable_context.compaction.draft_store import DraftStore
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import CommitResult, NodeRange, Plan, SummarizeResult
from durable_context.database import Pool
from durable_context.errors import SummarizerRejected
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.test_compactor import POLICY, Steps
from tests.turns import numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
TABLES = (
    "branches",
    "lineage",
    "turns",
    "artifacts",
    "summaries",
    "summary_parts",
    "checkpoints",
    "compactions",
    "indexed_documents",
    "postings",
)
RUNNING = UUID(int=1)
STEPS = ("plan", "summarize", "commit", "index")


class Walk:
    """One compaction of a branch, step by step, with whatever else happens in between."""

    def __init__(self, pool: Pool, branch: Branch, summarizer: ScriptedSummarizer) -> None:
        self._steps = Steps(pool, branch, summarizer)
        self._plan = Plan()
        self._made: list[SummarizeResult] = []
        self._done = 0

    async def go(self, count: int = len(STEPS)) -> None:
        """That many further steps."""
        for name in STEPS[self._done : self._done + count]:
            await getattr(self, f"_{name}_it")()
            self._done += 1

    async def _plan_it(self) -> None:
        self._plan = await self._steps.plan()

    async def _summarize_it(self) -> None:
        self._made = await self._steps.summarize(self._plan)

    async def _commit_it(self) -> None:
        await self._steps.commit(self._plan, self._made)

    async def _index_it(self) -> None:
        leaf = self._plan.nodes[0]
        await self._steps.index(leaf.from_turn, leaf.to_turn)


@pytest.fixture
async def root(client: ContextClient) -> Branch:
    return await client.open_branch("conversation")


@pytest.fixture
def summarizer() -> ScriptedSummarizer:
    return ScriptedSummarizer()


@pytest.fixture
async def fork(client: ContextClient, connection: Connection) -> Callable[..., Awaitable[Branch]]:
    async def make(parent: Branch, name: str, at_turn: int | None = None) -> Branch:
        forked = await connection.fetchrow(
            "select * from durable_context.fork_branch('default', $1, $2, $3, $4)",
            parent.branch_uuid,
            name,
            at_turn,
            POLICY.keep_raw_turns,
        )
        assert forked is not None and forked["status"] == "forked"
        return await client.open_branch("conversation", name)

    return make


@pytest.fixture
async def locked(root: Branch, database_url: str) -> AsyncIterator[Connection]:
    """A connection that holds the lock of the root's row until it ends its transaction.

    A compaction of the root is running.
    """
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "insert into durable_context.compactions"
        " (compaction_id, tenant, branch_uuid, from_turn, to_turn, status, reason)"
        " values ($1, 'default', $2, 1, 4, 'running', 'turn')",
        RUNNING,
        root.branch_uuid,
    )
    await connection.execute("begin")
    await connection.execute(
        "select from durable_context.branches where branch_uuid = $1 for no key update",
        root.branch_uuid,
    )
    yield connection
    await connection.close()


Fork = Callable[..., Awaitable[Branch]]


async def test_a_child_compacts_inherited_turns_into_rows_of_its_own(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    await _compact(pool, root, summarizer)
    child = await fork(root, "child")
    before = await _rows(connection, root)
    await _record(connection, child, 6)
    result = await Steps(pool, child, summarizer).all()
    assert await _rows(connection, root) == before
    assert result.checkpoint_turn == 12
    [own] = await _own(connection, "summaries", child)
    assert (own["level"], own["from_turn"], own["to_turn"]) == (0, 7, 12)
    assert [turn.turn_no for turn in summarizer.asked[-1].turns] == [*range(7, 13)]
    [first] = await _own(connection, "checkpoints", root)
    [second] = await _own(connection, "checkpoints", child)
    assert second["parent_id"] == first["checkpoint_id"]
    assert second["frontier"] == [*first["frontier"], own["summary_id"]]
    assert second["leaf_count"] == 2 and "SHP-0001" in second["ledger"]
    [compaction] = await _own(connection, "compactions", child)
    assert (compaction["from_turn"], compaction["status"]) == (7, "completed")
    [document] = await _own(connection, "indexed_documents", child)
    assert (document["from_turn"], document["to_turn"]) == (7, 12)


async def test_terms_of_inherited_turns_are_indexed_by_the_child_that_compacts_them(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    child = await fork(root, "child")
    await _compact(pool, child, summarizer)
    frequency = await connection.fetchval(
        "select frequency from durable_context.postings"
        " where branch_uuid = $1 and term = 'rotterdam'",
        child.branch_uuid,
    )
    assert frequency == 6
    [document] = await _own(connection, "indexed_documents", child)
    assert (document["nth"], document["total_length"]) == (1, document["length"])


async def test_figures_of_a_child_go_on_from_where_it_was_forked(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    await _compact(pool, root, summarizer)
    child = await fork(root, "child")
    await _record(connection, child, 6)
    await _compact(pool, child, summarizer)
    [branch] = await _own(connection, "branches", child)
    at_checkpoint = await connection.fetchval(
        "select head_tokens from durable_context.turns where branch_uuid = $1 and turn_no = 12",
        child.branch_uuid,
    )
    assert (branch["checkpoint_turn"], branch["checkpoint_tokens"]) == (12, at_checkpoint)
    [document] = await _own(connection, "indexed_documents", child)
    assert (document["nth"], document["total_length"]) == (1, document["length"])


async def test_what_the_parent_has_published_since_the_fork_is_not_made_again(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 26)
    child = await fork(root, "child")
    assert await _compact(pool, root, summarizer) == 4
    asked, before = len(summarizer.asked), await _rows(connection, root)
    assert await _compact(pool, child, summarizer) == 4
    assert len(summarizer.asked) == asked == 5
    assert await _rows(connection, root) == before
    parents = await _own(connection, "summaries", root)
    childs = await _own(connection, "summaries", child)
    assert [_told(node) for node in childs] == [_told(node) for node in parents]
    assert not {node["summary_id"] for node in childs} & {node["summary_id"] for node in parents}
    assert {node["usage"] for node in childs} == {'{"attempts":[]}'}
    assert {node["state"] for node in childs} == {"current"}
    compactions = await _own(connection, "compactions", child)
    assert [compaction["usage"] for compaction in compactions] == ["[]"] * 4


async def test_reused_work_says_so(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    child = await fork(root, "child")
    await _compact(pool, root, summarizer)
    steps = Steps(pool, child, summarizer)
    plan = await steps.plan()
    [first] = await steps.summarize(plan)
    [again] = await steps.summarize(plan)
    assert first.reused and again == first and not first.degraded
    await steps.commit(plan, [first])
    [checkpoint] = await _own(connection, "checkpoints", child)
    assert '"model_calls":0' in checkpoint["token_usage"]


async def test_a_degraded_summary_of_the_parent_is_not_reused(
    root: Branch, fork: Fork, pool: Pool, connection: Connection
) -> None:
    summarizer = ScriptedSummarizer(SummarizerRejected("no"))
    await _record(connection, root, 8)
    child = await fork(root, "child")
    await _compact(pool, root, summarizer)
    await _compact(pool, child, summarizer)
    [parents] = await _own(connection, "summaries", root)
    [childs] = await _own(connection, "summaries", child)
    assert (parents["degraded"], childs["degraded"]) == (True, False)
    assert len(summarizer.asked) == 2


async def test_a_summary_that_reaches_beyond_the_fork_is_not_reused(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    """Not even where both branches happen to have gone on with the same words."""
    await _record(connection, root, 8)
    child = await fork(root, "child", 5)
    await _record(connection, child, 3)
    await _compact(pool, root, summarizer)
    await _compact(pool, child, summarizer)
    assert len(summarizer.asked) == 2
    [parents] = await _own(connection, "summaries", root)
    [childs] = await _own(connection, "summaries", child)
    assert parents["input_hash"] == childs["input_hash"]


async def test_siblings_do_not_share_work(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    one, other = await fork(root, "one"), await fork(root, "other")
    await _compact(pool, one, summarizer)
    before = await _rows(connection, one)
    await _compact(pool, other, summarizer)
    assert len(summarizer.asked) == 2
    assert await _rows(connection, one) == before


@pytest.mark.parametrize("parent_first", [True, False], ids=["parent first", "child first"])
@pytest.mark.parametrize("steps", range(len(STEPS) + 1))
async def test_a_fork_while_the_parent_compacts_is_right_whoever_finishes_first(
    root: Branch,
    fork: Fork,
    pool: Pool,
    connection: Connection,
    summarizer: ScriptedSummarizer,
    steps: int,
    parent_first: bool,
) -> None:
    await _record(connection, root, 8)
    walk = Walk(pool, root, summarizer)
    await walk.go(steps)
    child = await fork(root, "child")
    await _record(connection, root, 6)
    await _record(connection, child, 6)

    async def finish_parent() -> None:
        await walk.go()
        await _compact(pool, root, summarizer)

    async def finish_child() -> None:
        await _compact(pool, child, summarizer)

    order = [finish_parent, finish_child]
    for finish in order if parent_first else reversed(order):
        await finish()
    for branch in (root, child):
        assert await _cover(connection, branch) == [(0, 1, 6), (0, 7, 12)]
    visible = await _visible_checkpoints(connection, child)
    assert [row["turn_no"] for row in visible] == [6, 12]
    assert visible[1]["parent_id"] == visible[0]["checkpoint_id"]
    of_child = await _own(connection, "summaries", child)
    assert [node["from_turn"] for node in of_child] == ([7] if steps >= 3 else [1, 7])


async def test_parent_and_child_compact_at_once(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 26)
    children = [await fork(root, f"child-{turn}", turn) for turn in (9, 17, 26)]
    for child in children:
        await _record(connection, child, 7)
    branches = [root, *children]
    await asyncio.gather(*(_compact(pool, branch, summarizer) for branch in branches))
    covers = [await _cover(connection, branch) for branch in branches]
    assert covers[0] == [(1, 1, 24)]
    assert covers[1] == [(0, 1, 6), (0, 7, 12)]
    assert covers[2] == [(0, 1, 6), (0, 7, 12), (0, 13, 18)]
    assert covers[3] == [(1, 1, 24), (0, 25, 30)]


async def test_a_merge_covers_inherited_and_own_leaves(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 14)
    await _compact(pool, root, summarizer)
    child = await fork(root, "child")
    before = await _rows(connection, root)
    await _record(connection, child, 12)
    assert await _compact(pool, child, summarizer) == 2
    assert await _rows(connection, root) == before
    assert await _cover(connection, child) == [(1, 1, 24)]
    merge = summarizer.asked[-1]
    assert [node.from_turn for node in merge.nodes] == [1, 7, 13, 19]
    inherited = {row["summary_id"] for row in await _own(connection, "summaries", root)}
    assert [node.summary_id in inherited for node in merge.nodes] == [True, True, False, False]


async def test_a_fork_before_the_first_checkpoint_compacts_from_turn_one(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 14)
    await _compact(pool, root, summarizer)
    child = await fork(root, "child", 4)
    await _record(connection, child, 4)
    await _compact(pool, child, summarizer)
    assert await _cover(connection, child) == [(0, 1, 6)]
    [checkpoint] = await _own(connection, "checkpoints", child)
    assert checkpoint["parent_id"] is None and checkpoint["leaf_count"] == 1


async def test_a_chain_of_forks_five_deep_has_a_frontier_without_gaps(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    await _compact(pool, root, summarizer)
    branches = [root]
    for depth in range(1, 6):
        before = [await _rows(connection, branch) for branch in branches]
        branches.append(await fork(branches[-1], f"depth-{depth}"))
        await _record(connection, branches[-1], 6)
        await _compact(pool, branches[-1], summarizer)
        assert [await _rows(connection, branch) for branch in branches[:-1]] == before
    assert await _cover(connection, branches[-1]) == [(1, 1, 24), (0, 25, 30), (0, 31, 36)]
    assert len(summarizer.asked) == 7
    visible = await _visible_checkpoints(connection, branches[-1])
    assert [row["turn_no"] for row in visible] == [6, 12, 18, 24, 30, 36]
    assert [row["branch_uuid"] for row in visible] == [one.branch_uuid for one in branches]
    assert [row["leaf_count"] for row in visible] == [1, 2, 3, 4, 5, 6]


async def test_a_grandchild_reuses_what_its_grandparent_made(
    root: Branch, fork: Fork, pool: Pool, connection: Connection, summarizer: ScriptedSummarizer
) -> None:
    await _record(connection, root, 8)
    grandchild = await fork(await fork(root, "child"), "grandchild")
    await _compact(pool, root, summarizer)
    await _compact(pool, grandchild, summarizer)
    assert len(summarizer.asked) == 1
    assert await _cover(connection, grandchild) == [(0, 1, 6)]


async def _plan(pool: Pool, branch: Branch) -> None:
    store = CompactionStore(pool, "default", branch.branch_uuid)
    await store.join_compaction(NodeRange(level=0, from_turn=1, to_turn=6), 1, "turn", RunId())


async def _count(pool: Pool, branch: Branch) -> None:
    drafts = DraftStore(pool, "default", branch.branch_uuid)
    await drafts.count_attempt(RUNNING, "recipe", (), "error", failed=True)


async def _fail(pool: Pool, branch: Branch) -> None:
    await DraftStore(pool, "default", branch.branch_uuid).fail(RUNNING, "error")


@pytest.mark.parametrize("write", [_plan, _count, _fail])
async def test_whoever_writes_of_a_compaction_waits_for_the_branch(
    root: Branch, pool: Pool, locked: Connection, write: Callable[[Pool, Branch], Awaitable[None]]
) -> None:
    writing = asyncio.ensure_future(write(pool, root))
    while not await _is_waited_for(locked):
        assert not writing.done()
        await asyncio.sleep(0)
    await locked.execute("commit")
    await writing


async def _is_waited_for(connection: Connection) -> bool:
    return await connection.fetchval(
        "select exists (select from pg_locks where not granted"
        " and pg_backend_pid() = any(pg_blocking_pids(pid)))"
    )


async def _record(connection: Connection, branch: Branch, count: int) -> None:
    head = await connection.fetchval(
        "select head_turn from durable_context.branches where branch_uuid = $1", branch.branch_uuid
    )
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))


async def _compact(pool: Pool, branch: Branch, summarizer: ScriptedSummarizer) -> int:
    """Passes until nothing is due; how many there were."""
    steps, passes = Steps(pool, branch, summarizer), 0
    while (await steps.plan()).nodes:
        result: CommitResult = await steps.all()
        passes += 1
        if not result.more:
            break
    return passes


async def _rows(connection: Connection, branch: Branch) -> dict[str, list[str]]:
    """Every row of the branch, as text."""
    found: dict[str, list[str]] = {}
    for table in TABLES:
        rows = await connection.fetch(
            f"select t::text as row from durable_context.{table} t"
            " where branch_uuid = $1 order by 1",
            branch.branch_uuid,
        )
        found[table] = [row["row"] for row in rows]
    return found


async def _own(connection: Connection, table: str, branch: Branch) -> list[asyncpg.Record]:
    order = {"checkpoints": "turn_no", "indexed_documents": "to_turn", "branches": "branch_uuid"}
    return await connection.fetch(
        f"select * from durable_context.{table} where branch_uuid = $1"
        f" order by {order.get(table, 'from_turn, to_turn')}",
        branch.branch_uuid,
    )


async def _cover(connection: Connection, branch: Branch) -> list[tuple[int, int, int]]:
    """Level and turns of the nodes of the newest frontier, which has no gap."""
    rows = await connection.fetch(
        "select s.level, s.from_turn, s.to_turn from durable_context.branches b"
        " join durable_context.visible_checkpoints c"
        " on c.seen_by = b.branch_uuid and c.turn_no = b.checkpoint_turn"
        " cross join unnest(c.frontier) with ordinality f (summary_id, position)"
        " join durable_context.visible_summaries s"
        " on s.seen_by = b.branch_uuid and s.summary_id = f.summary_id"
        " where b.branch_uuid = $1 order by f.position",
        branch.branch_uuid,
    )
    next_turn = 1
    for row in rows:
        assert row["from_turn"] == next_turn
        next_turn = row["to_turn"] + 1
    return [tuple(row) for row in rows]


async def _visible_checkpoints(connection: Connection, branch: Branch) -> list[asyncpg.Record]:
    return await connection.fetch(
        "select * from durable_context.visible_checkpoints where seen_by = $1 order by turn_no",
        branch.branch_uuid,
    )


def _told(node: asyncpg.Record) -> tuple[Any, ...]:
    return (node["level"], node["from_turn"], node["to_turn"], node["headline"], node["text"])
