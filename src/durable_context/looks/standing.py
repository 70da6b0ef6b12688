"""How a branch stands, without the content of its turns: what `inspect` says, for any length."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from durable_context.compaction.lag import next_segment
from durable_context.compaction.segments import compactable_turn
from durable_context.compaction.store import BranchHead, CompactionStore
from durable_context.control.pausing import Pausing
from durable_context.database import acquired
from durable_context.models import Ancestor, Lag, Pause, Summary, Value
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources

_LAG: Final = """
select count(*), coalesce(sum(t.stored_tokens), 0)::bigint, min(t.recorded_at)
from durable_context.visible_turns t
where t.tenant = $1 and t.seen_by = $2 and t.turn_no between $3 and $4
"""
_INHERITED: Final = """
select l.compacted_turn from durable_context.lineage l
where l.tenant = $1 and l.branch_uuid = $2 and l.depth = 1
"""


class BranchStanding(Value):
    """As of `BranchState`. `checkpoint_turn` is the newest checkpoint's, 0 before the first.
    `is_due`: a segment is full and waits. Nodes up to `inherited_turn` are an ancestor's.
    """

    lineage: tuple[Ancestor, ...]
    encoding: str
    head_turn: int
    head_tokens: int
    open_run_turn: int | None
    inherited_turn: int
    lag: Lag
    is_due: bool
    checkpoint_turn: int
    frontier: tuple[Summary, ...]
    pauses: tuple[Pause, ...]


class Standing:
    """Of one branch. Several reads, each of a moment of its own."""

    def __init__(self, resources: Resources, branch_uuid: UUID, policy: CompactionPolicy) -> None:
        self._resources = resources
        self._branch = branch_uuid
        self._policy = policy
        self._store = CompactionStore(resources.pool, resources.tenant, branch_uuid)

    async def read(self) -> BranchStanding:
        """Raises UnknownBranch."""
        pool, tenant, branches = self._resources[:3]
        head = await self._store.head()
        figures = await branches.head(self._branch)
        return BranchStanding(
            lineage=await branches.lineage(self._branch),
            encoding=head.encoding,
            head_turn=head.head_turn,
            head_tokens=figures.head_tokens,
            open_run_turn=head.open_run_turn,
            inherited_turn=await self._inherited(),
            lag=await self._lag(head),
            is_due=bool(await next_segment(self._store, head, self._policy)),
            checkpoint_turn=head.checkpoint_turn,
            frontier=tuple(await self._store.frontier(head.checkpoint_turn)),
            pauses=await Pausing(pool, tenant).of_branch(self._branch),
        )

    async def _lag(self, head: BranchHead) -> Lag:
        run = await self._store.newest_of_run(head, self._policy.run_raw_tokens)
        last = compactable_turn(head.head_turn, run, self._policy)
        async with acquired(self._resources.pool) as connection:
            row = await connection.fetchrow(
                _LAG, self._resources.tenant, self._branch, head.checkpoint_turn + 1, last
            )
        assert row is not None
        turns, tokens, since = row
        age = (datetime.now(UTC) - since).total_seconds() if since else 0.0
        return Lag(turns=turns, tokens=tokens, seconds=max(age, 0.0))

    async def _inherited(self) -> int:
        async with acquired(self._resources.pool) as connection:
            turn = await connection.fetchval(_INHERITED, self._resources.tenant, self._branch)
        return turn or 0
