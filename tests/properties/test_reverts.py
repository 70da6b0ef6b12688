"""Whatever is recorded, compacted, replaced, reverted, forked and followed, in any order: every
prompt tells of each turn once, and trees have neither gap nor overlap.
"""

from typing import TypeAlias
from uuid import UUID, uuid4

import asyncpg
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from durable_context import Branch, Budget, CompactionPolicy, ContextClient, PreparedContext
from durable_context.compaction.following import follow
from durable_context.compaction.node_index import unindexed
from durable_context.database import Pool
from tests.compacting import compact_all, compact_once
from tests.exports import exported
from tests.prompts import check_prompt
from tests.replacing import replace_node
from tests.turns import numbered

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
AMPLE = Budget(max_tokens=1_000_000)
POLICY = CompactionPolicy(segment_turns=2, keep_raw_turns=1, fan_out=2, summary_max_tokens=100)
MOST_BRANCHES = 5

numbers = st.integers(0, 1_000)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), numbers, st.integers(1, 5)),
        st.tuples(st.just("record"), numbers, st.integers(1, 5)),
        st.tuples(st.just("compact"), numbers, st.integers(0, 1)),
        st.tuples(st.just("compact"), numbers, st.integers(0, 1)),
        st.tuples(st.just("revert"), numbers, numbers),
        st.tuples(st.just("revert_to_any"), numbers, numbers),
        st.tuples(st.just("replace"), numbers, numbers),
        st.tuples(st.just("fork"), numbers, numbers),
        st.tuples(st.just("follow"), numbers, st.just(0)),
    ),
    min_size=8,
    max_size=20,
)


class Grove:
    """Branches of one conversation, and what is done with them."""

    def __init__(self, pool: Pool, connection: Connection, root: Branch) -> None:
        self._pool = pool
        self._connection = connection
        self.branches = [root]

    async def do(self, name: str, number: int, argument: int) -> None:
        branch = self.branches[number % len(self.branches)]
        others = [one for one in self.branches if one is not branch]
        before = [await _prompt(one) for one in others]
        await getattr(self, name)(branch, argument)
        if name != "fork":
            assert [await _prompt(one) for one in others] == before, "others notice nothing"
        await check(branch, self._connection)

    async def record(self, branch: Branch, count: int) -> None:
        head = (await branch.inspect()).head_turn
        for turn in range(head + 1, head + count + 1):
            await branch.record_turn(numbered(turn))

    async def compact(self, branch: Branch, once: int) -> None:
        await (compact_once if once else compact_all)(self._pool, branch.branch_uuid, POLICY)

    async def revert(self, branch: Branch, number: int) -> None:
        """To what the branch has as current, down to what it began with."""
        base = await self._connection.fetchval(
            "select coalesce(max(compacted_turn), 0) from durable_context.lineage"
            " where branch_uuid = $1 and depth > 0",
            branch.branch_uuid,
        )
        turns = [one.turn_no for one in await branch.checkpoints() if one.turn_no > base]
        to = [base, *turns][number % (len(turns) + 1)]
        checkpoint = await branch.revert(to)
        assert (checkpoint.turn_no if checkpoint else 0) == to

    async def revert_to_any(self, branch: Branch, number: int) -> None:
        """To a checkpoint of the branch's own that was not rejected, by its id."""
        rows = await self._connection.fetch(
            "select checkpoint_id, text from durable_context.checkpoints"
            " where branch_uuid = $1 and state <> 'rejected' order by turn_no, revision",
            branch.branch_uuid,
        )
        if rows:
            wanted = rows[number % len(rows)]
            checkpoint = await branch.revert(wanted["checkpoint_id"])
            assert checkpoint is not None and checkpoint.text == wanted["text"]

    async def replace(self, branch: Branch, number: int) -> None:
        own: list[UUID] = await self._connection.fetchval(
            "select array_agg(summary_id order by level, from_turn) from durable_context.summaries"
            " where branch_uuid = $1 and state = 'current'",
            branch.branch_uuid,
        )
        nodes = [node for node in await branch.summaries() if node.summary_id in (own or ())]
        if nodes:
            node = nodes[number % len(nodes)]
            text = f"What {uuid4().hex} says."
            await replace_node(self._connection, branch, node.from_turn, text, node.level)

    async def fork(self, branch: Branch, number: int) -> None:
        if len(self.branches) < MOST_BRANCHES:
            head = (await branch.inspect()).head_turn
            fork = await branch.fork(f"fork-{uuid4().hex}", at_turn=number % (head + 1))
            await check(fork, self._connection)
            self.branches.append(fork)

    async def follow(self, branch: Branch, _: int) -> None:
        await follow(self._pool, "default", branch.branch_uuid)


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(done=steps)
async def test_every_prompt_tells_of_each_turn_once(
    client: ContextClient, pool: Pool, connection: Connection, done: list[tuple[str, int, int]]
) -> None:
    conversation = uuid4().hex
    grove = Grove(pool, connection, await client.open_branch(conversation))
    for step in done:
        await grove.do(*step)
    for number, branch in enumerate(grove.branches):
        await compact_all(pool, branch.branch_uuid, POLICY)
        await check(branch, connection)
        assert not await unindexed(pool, "default", branch.branch_uuid)
        copy = await client.import_branch(
            await exported(client, conversation, branch.branch_id),
            conversation_id=f"{conversation}-{number}",
        )
        assert (await _prompt(copy)).messages == (await _prompt(branch)).messages


async def check(branch: Branch, connection: Connection) -> None:
    state = await branch.inspect()
    for at_turn in {None, state.head_turn // 2, max(state.head_turn - 3, 0)}:
        prepared = await _prompt(branch, at_turn)
        check_prompt(prepared, state.head_turn if at_turn is None else at_turn, POLICY)
    covered = state.checkpoint.turn_no if state.checkpoint else 0
    leaves = [node for node in await branch.summaries() if node.level == 0]
    for nodes in (state.frontier, [node for node in leaves if node.to_turn <= covered]):
        turns = [no for node in nodes for no in range(node.from_turn, node.to_turn + 1)]
        assert turns == list(range(1, covered + 1))
    figures = await connection.fetchrow(
        "select b.checkpoint_turn, b.checkpoint_tokens, coalesce(t.head_tokens, 0)"
        " from durable_context.branches b left join durable_context.visible_turns t"
        " on t.tenant = b.tenant and t.seen_by = b.branch_uuid and t.turn_no = b.checkpoint_turn"
        " where b.branch_uuid = $1",
        branch.branch_uuid,
    )
    assert figures is not None
    assert figures[0] == covered and figures[1] == figures[2]


async def _prompt(branch: Branch, at_turn: int | None = None) -> PreparedContext:
    asked = "Where are SHP-0002 and SHP-0007?"
    prepared = await branch.prepare(asked, budget=AMPLE, at_turn=at_turn)
    assert isinstance(prepared, PreparedContext)
    return prepared
