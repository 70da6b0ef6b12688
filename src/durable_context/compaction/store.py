"""Plans and checkpoints in PostgreSQL: what compaction reads to plan. Every statement filters on
the tenant.

It reads what the branch sees, its ancestors' rows among them, and writes only rows of the branch.
Whoever writes locks the branch first, so that all writers of a branch queue in one place.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from durable_context import stored_json
from durable_context.compaction.counting import count_failed, count_skipped
from durable_context.compaction.publishing import Publications
from durable_context.compaction.segments import TurnSize
from durable_context.contracts import NodeRange, Reason
from durable_context.database import acquired
from durable_context.errors import UnknownBranch
from durable_context.models import Checkpoint, LedgerEntry, Summary
from durable_context.store import (
    CHECKPOINT_COLUMNS,
    SEEN_CHECKPOINT_COLUMNS,
    SEEN_SUMMARY_COLUMNS,
    SUMMARY_COLUMNS,
    checkpoint_from_row,
    summary_from_row,
)

MIN_TURN_TOKENS = 4
"""No turn is smaller: it has at least one message."""


# Of running compactions one that ends elsewhere may begin with the same turn: it is out of the way
# before the new one comes in, because the new one counts it.
_JOIN_COMPACTION = """
with left_behind as (
    update durable_context.compactions set
        status = 'failed',
        finished_at = clock_timestamp(),
        error = coalesce(error || '; ', '')
            || format('left behind: the branch went on at turns %s-%s', $3, $4)
    where tenant = $1 and branch_uuid = $2 and status = 'running'
        and reason in ('turn', 'request', 'sweep') and (from_turn <> $3 or to_turn <> $4)
    returning reason
)
insert into durable_context.compactions (
    tenant, branch_uuid, from_turn, to_turn, status, reason, tokens_before, workflow_id, run_id,
    focus
)
select $1, $2, $3, $4, 'running', $5, $6, $7, $8, (
    select f.focus from durable_context.focuses f
    where f.tenant = $1 and f.branch_uuid = $2 and f.focus_id = $9
) from (select count(*) from left_behind) counted
on conflict (branch_uuid, level, from_turn) where status = 'running'
do update set workflow_id = excluded.workflow_id, run_id = excluded.run_id, focus = excluded.focus
returning compaction_id, array(select l.reason from left_behind l)
"""


class BranchHead(NamedTuple):
    """What of a branch compaction starts from. `publication` counts what was published of it;
    `is_paused`: it is, or its tenant.
    """

    encoding: str
    head_turn: int
    checkpoint_turn: int
    open_run_turn: int | None
    publication: int = 0
    is_paused: bool = False


class MergeSizes(NamedTuple):
    """Tokens of the nodes to merge together and on average, of those that prompts show already,
    and of the newest checkpoint.
    """

    children: int
    average: int
    shown: int
    checkpoint: int
    last_turn_at: datetime | None


class RunId(NamedTuple):
    """The workflow run that compacts, for those who look for it. None outside Temporal."""

    workflow_id: str | None = None
    run_id: str | None = None


class CompactionStore(Publications):
    """One tenant's branch, as compaction reads and writes it."""

    async def head(self) -> BranchHead:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select b.encoding, b.head_turn, b.checkpoint_turn, b.open_run_turn, b.publication,"
                " b.paused_at is not null or t.paused_at is not null"
                " from durable_context.branches b"
                " left join durable_context.tenants t on t.tenant = b.tenant"
                " where b.tenant = $1 and b.branch_uuid = $2",
                self._tenant,
                self._branch,
            )
        if row is None:
            raise UnknownBranch(f"there is no branch {self._branch} for this tenant")
        return BranchHead(*row)

    async def sizes(self, after_turn: int, limit: int) -> list[TurnSize]:
        """The next turns, oldest first."""
        return await self._sizes(after_turn + 1, after_turn + limit)

    async def newest_of_run(self, head: BranchHead, max_tokens: int) -> list[TurnSize]:
        """Turns of the open run, newest first: at least as many as `max_tokens` have room for."""
        if head.open_run_turn is None:
            return []
        earliest = head.head_turn - max_tokens // MIN_TURN_TOKENS
        sizes = await self._sizes(max(head.open_run_turn, earliest), head.head_turn)
        return sizes[::-1]

    async def frontier_ranges(self, checkpoint_turn: int) -> list[NodeRange]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select s.level, s.from_turn, s.to_turn from durable_context.visible_checkpoints c"
                " cross join unnest(c.frontier) with ordinality f (summary_id, position)"
                " join durable_context.summaries s"
                " on s.tenant = c.tenant and s.summary_id = f.summary_id"
                " where c.tenant = $1 and c.seen_by = $2 and c.turn_no = $3"
                " order by f.position",
                self._tenant,
                self._branch,
                checkpoint_turn,
            )
        return [NodeRange(level=row[0], from_turn=row[1], to_turn=row[2]) for row in rows]

    async def merge_sizes(self, node: NodeRange, checkpoint_turn: int) -> MergeSizes:
        """What making `node` of the nodes inside it is judged by. Of its turns that none of them
        covers yet, a node of their average size is expected.
        """
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select coalesce(n.tokens, 0), n.count, coalesce(n.covered, $4 - 1) < $5,"
                " coalesce(c.token_count, 0), coalesce(b.last_turn_at, b.created_at)"
                " from durable_context.branches b"
                " cross join lateral (select sum(s.token_count) as tokens, count(*) as count,"
                " max(s.to_turn) as covered from durable_context.visible_summaries s"
                " where s.tenant = $1 and s.seen_by = $2 and s.level = $3 and s.from_turn >= $4"
                " and s.to_turn <= $5) n"
                " left join durable_context.visible_checkpoints c"
                " on c.tenant = $1 and c.seen_by = $2 and c.turn_no = $6"
                " where b.tenant = $1 and b.branch_uuid = $2",
                self._tenant,
                self._branch,
                node.level - 1,
                node.from_turn,
                node.to_turn,
                checkpoint_turn,
            )
        if row is None:
            raise UnknownBranch(f"there is no branch {self._branch} for this tenant")
        shown, count, is_missing, checkpoint, last_turn_at = row
        average = -(-shown // count) if count else 0
        children = shown + (average if is_missing else 0)
        return MergeSizes(children, average, shown, checkpoint, last_turn_at)

    async def join_compaction(
        self,
        leaf: NodeRange,
        tokens: int,
        reason: Reason,
        by: RunId,
        focus_id: UUID | None = None,
    ) -> UUID:
        """The running compaction of this segment, begun if there is none. Its nodes are made with
        that focus, or without one.

        Running ones of other segments were left behind, and are marked failed.
        """
        async with acquired(self._pool) as connection, connection.transaction():
            await self._lock(connection)
            row = await connection.fetchrow(
                _JOIN_COMPACTION,
                self._tenant,
                self._branch,
                leaf.from_turn,
                leaf.to_turn,
                reason,
                tokens,
                *by,
                focus_id,
            )
        assert row is not None
        compaction_id, left_behind = row
        count_failed(left_behind)
        return compaction_id

    async def note_skipped(self, head: BranchHead, reason: Reason) -> None:
        """An event, once until something else happens: nothing was due."""
        figures = {"reason": reason, "checkpoint_turn": head.checkpoint_turn}
        async with acquired(self._pool) as connection:
            noted = await connection.fetch(
                "select durable_context.note_event($1, $2, 'compaction_skipped', $3, null, $4)"
                " where (select e.kind from durable_context.events e where e.branch_uuid = $2"
                " order by e.event_no desc limit 1) is distinct from 'compaction_skipped'",
                self._tenant,
                self._branch,
                head.head_turn,
                stored_json.dumps(figures),
            )
        if noted:
            count_skipped(reason)

    async def checkpoint(self, turn_no: int) -> Checkpoint | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"select {SEEN_CHECKPOINT_COLUMNS} from durable_context.visible_checkpoints"
                " where tenant = $1 and seen_by = $2 and turn_no = $3",
                self._tenant,
                self._branch,
                turn_no,
            )
        return checkpoint_from_row(row) if row else None

    async def own_checkpoint(self, turn_no: int) -> Checkpoint | None:
        """The branch's own at this turn; none where an ancestor's stands there."""
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"select {CHECKPOINT_COLUMNS} from durable_context.checkpoints"
                " where tenant = $1 and branch_uuid = $2 and turn_no = $3 and state = 'current'",
                self._tenant,
                self._branch,
                turn_no,
            )
        return checkpoint_from_row(row) if row else None

    async def summaries(self, ids: Sequence[UUID]) -> list[Summary]:
        """Those of the ids that exist, in the order of the ids."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SUMMARY_COLUMNS} from durable_context.summaries"
                " where tenant = $1 and summary_id = any($2::uuid[])",
                self._tenant,
                ids,
            )
        found = {row["summary_id"]: summary_from_row(row) for row in rows}
        return [found[summary_id] for summary_id in ids if summary_id in found]

    async def frontier(self, checkpoint_turn: int) -> list[Summary]:
        """Nodes of the checkpoint at this turn, oldest first, each as it is by now: what replaced
        it stands for it.
        """
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SEEN_SUMMARY_COLUMNS} from (select s.*, f.position"
                " from durable_context.visible_checkpoints c"
                " cross join unnest(c.frontier) with ordinality f (summary_id, position)"
                " join durable_context.summaries o"
                " on o.tenant = c.tenant and o.summary_id = f.summary_id"
                " join durable_context.visible_summaries s on s.tenant = c.tenant"
                " and s.seen_by = c.seen_by and s.level = o.level and s.from_turn = o.from_turn"
                " and s.to_turn = o.to_turn"
                " where c.tenant = $1 and c.seen_by = $2 and c.turn_no = $3) nodes"
                " order by position",
                self._tenant,
                self._branch,
                checkpoint_turn,
            )
        return [summary_from_row(row) for row in rows]

    async def ledger(self, from_turn: int, to_turn: int) -> tuple[LedgerEntry, ...]:
        """Entries of these turns, oldest first, with their turn numbers."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select turn_no, ledger from durable_context.visible_turns where tenant = $1"
                " and seen_by = $2 and turn_no between $3 and $4 order by turn_no",
                self._tenant,
                self._branch,
                from_turn,
                to_turn,
            )
        return tuple(
            entry
            for row in rows
            for entry in stored_json.load_ledger(stored_json.loads(row["ledger"]), row["turn_no"])
        )

    async def _sizes(self, from_turn: int, to_turn: int) -> list[TurnSize]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select turn_no, stored_tokens, raw_tokens from durable_context.visible_turns"
                " where tenant = $1 and seen_by = $2 and turn_no between $3 and $4"
                " order by turn_no",
                self._tenant,
                self._branch,
                from_turn,
                to_turn,
            )
        return [TurnSize(*row) for row in rows]
