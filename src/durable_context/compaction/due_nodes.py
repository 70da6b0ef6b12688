"""Which published nodes of a branch are to be made anew, read level by level, and the compactions
that do so. Every statement filters on the tenant.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from durable_context.compaction.counting import count_failed
from durable_context.compaction.remembered import FAILED_LATELY, REVERTED
from durable_context.compaction.source import NODES_HASH
from durable_context.compaction.store import RunId
from durable_context.contracts import NodeRange
from durable_context.contracts.rebuild import PlannedNode, RebuildRequest
from durable_context.database import Pool, acquired
from durable_context.summarizers.extractive import RECIPE as EXTRACTIVE

RECENT_TURNS: Final = 50
"""Turns whose prompts tell which nodes are read."""

# A node is outdated, too, when it was made from nodes that others stand for by now: its hash is not
# that of what it would be made from.
_DUE = f"""
with inputs as (
    select n.summary_id, {NODES_HASH} as input_hash
    from durable_context.summaries n
    join durable_context.visible_summaries c on c.tenant = n.tenant and c.seen_by = n.branch_uuid
        and c.level = n.level - 1 and c.from_turn >= n.from_turn and c.to_turn <= n.to_turn
    where n.tenant = $1 and n.branch_uuid = $2 and n.state = 'current' and n.level = $3
        and n.level > 0
    group by n.summary_id
), reads as (
    select source.id, count(*) as times
    from durable_context.visible_turns t, json_array_elements(t.manifest -> 'blocks') block,
        json_array_elements_text(block -> 'source_ids') source (id)
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no > $4
    group by source.id
), tried as materialized (
    select f.from_turn, f.to_turn from durable_context.compactions f
    where f.tenant = $1 and f.branch_uuid = $2 and f.level = $3 and f.finished_at >= $11
        and f.status in ('failed', 'skipped') and f.reason in ('merge', 'upgrade', 'rebuild')
)
select s.summary_id, s.level, s.from_turn, s.to_turn, s.input_tokens,
    s.level > 0 and i.input_hash is distinct from s.input_hash
from durable_context.summaries s
left join inputs i on i.summary_id = s.summary_id
left join reads r on r.id = s.summary_id::text
where s.tenant = $1 and s.branch_uuid = $2 and s.state = 'current' and s.level = $3
    and s.to_turn between $5 and $6 and s.from_turn <= $7
    and (s.level > 0 and i.input_hash is distinct from s.input_hash or case when $8 = 'upgrade'
        then (s.degraded or split_part(s.recipe, '+focus:', 1) <> $9
            and ($9 <> '{EXTRACTIVE}' or s.made_by like 'extractive%'))
            and not {REVERTED.format(recipe="$9")}
        else s.published_in <= $10 end)
    and not ($8 = 'upgrade' and {FAILED_LATELY.format(recipe="$9")})
    and not exists (
        select from tried where tried.from_turn = s.from_turn and tried.to_turn = s.to_turn
    )
order by coalesce(r.times, 0) desc, s.to_turn desc
"""

_LEFT_BEHIND = """
with locked as materialized (
    select tenant, branch_uuid from durable_context.branches
    where tenant = $1 and branch_uuid = $2 for no key update
)
update durable_context.compactions c set status = 'failed', finished_at = clock_timestamp(),
    error = coalesce(c.error || '; ', '') || 'left behind: its rebuild ended without it'
from locked l
where c.tenant = $1 and c.branch_uuid = l.branch_uuid and c.status = 'running'
    and c.reason in ('merge', 'upgrade', 'rebuild') and c.workflow_id = $3
returning c.reason
"""

# An upgrade looks at what the node was made with a view to.
_JOIN = """
with locked as materialized (
    select tenant, branch_uuid from durable_context.branches
    where tenant = $1 and branch_uuid = $2 for no key update
)
insert into durable_context.compactions (
    tenant, branch_uuid, level, from_turn, to_turn, status, reason, tokens_before, workflow_id,
    run_id, focus
)
select l.tenant, l.branch_uuid, $3, n.from_turn, n.to_turn, 'running', $7, n.tokens, $8, $9,
    case when $7 = 'rebuild' then (
        select f.focus from durable_context.focuses f
        where f.tenant = $1 and f.branch_uuid = $2 and f.focus_id = $10
    ) else (
        select c.focus from durable_context.compactions c
        where c.tenant = $1 and c.branch_uuid = $2 and c.level = $3 and c.from_turn = n.from_turn
            and c.to_turn = n.to_turn and c.status = 'completed'
        order by c.finished_at desc limit 1
    ) end
from locked l, unnest($4::integer[], $5::integer[], $6::bigint[]) n (from_turn, to_turn, tokens)
on conflict (branch_uuid, level, from_turn) where status = 'running'
do update set to_turn = excluded.to_turn, reason = excluded.reason,
    tokens_before = excluded.tokens_before, workflow_id = excluded.workflow_id,
    run_id = excluded.run_id, focus = excluded.focus
returning compaction_id, from_turn, to_turn, tokens_before
"""


class DueNode(NamedTuple):
    """`follows`: nodes that it was made from were replaced."""

    summary_id: UUID
    level: int
    from_turn: int
    to_turn: int
    input_tokens: int
    follows: bool

    @property
    def range(self) -> NodeRange:
        return NodeRange(level=self.level, from_turn=self.from_turn, to_turn=self.to_turn)


class DueNodes:
    """Nodes of one branch, as its rebuild asks for them."""

    def __init__(self, pool: Pool, request: RebuildRequest) -> None:
        self._pool = pool
        self._request = request
        self._tenant = request.tenant
        self._branch = request.branch_uuid

    async def now(self) -> datetime:
        async with acquired(self._pool) as connection:
            return await connection.fetchval("select clock_timestamp()")

    async def leave_behind(self, by: RunId) -> None:
        """Fail what runs of this workflow left running: one of them runs at a time."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_LEFT_BEHIND, self._tenant, self._branch, by.workflow_id)
        count_failed(row["reason"] for row in rows)

    async def levels(self) -> int:
        async with acquired(self._pool) as connection:
            return await connection.fetchval(
                "select coalesce(max(level) + 1, 0) from durable_context.summaries"
                " where tenant = $1 and branch_uuid = $2 and state = 'current'",
                self._tenant,
                self._branch,
            )

    async def of_level(
        self, level: int, head_turn: int, checkpoint_turn: int, recipe: str
    ) -> list[DueNode]:
        """Most-read first, then newest: only what the branch itself has published, up to its
        newest checkpoint.
        """
        asked = self._request
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _DUE,
                self._tenant,
                self._branch,
                level,
                head_turn - RECENT_TURNS,
                asked.from_turn,
                checkpoint_turn,
                asked.to_turn or checkpoint_turn,
                asked.reason,
                recipe,
                asked.since,
                asked.begun_at,
            )
        return [DueNode(*row) for row in rows]

    async def tried(self) -> set[tuple[int, int, int]]:
        """Levels and turns of merges that failed or could not pay since this rebuild began."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select level, from_turn, to_turn from durable_context.compactions"
                " where tenant = $1 and branch_uuid = $2 and status in ('failed', 'skipped')"
                " and reason in ('merge', 'upgrade', 'rebuild') and finished_at >= $3",
                self._tenant,
                self._branch,
                self._request.begun_at,
            )
        return {tuple(row) for row in rows}

    async def join(
        self, level: int, nodes: Sequence[tuple[int, int, int]], by: RunId
    ) -> tuple[PlannedNode, ...]:
        """The running compactions of these nodes (first turn, last turn, tokens), begun where there
        are none.
        """
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _JOIN,
                self._tenant,
                self._branch,
                level,
                *([node[part] for node in nodes] for part in range(3)),
                self._request.reason,
                *by,
                self._request.focus_id,
            )
        planned = {row["from_turn"]: PlannedNode(*row) for row in rows}
        return tuple(planned[node[0]] for node in nodes)

    async def note_tried(self, node: NodeRange, why: str) -> None:
        """Of a node that was skipped, now and maybe before."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update durable_context.compactions set finished_at = clock_timestamp(),"
                " reason = $6, error = $7 where tenant = $1 and branch_uuid = $2 and level = $3"
                " and from_turn = $4 and to_turn = $5 and status = 'skipped'",
                self._tenant,
                self._branch,
                node.level,
                node.from_turn,
                node.to_turn,
                self._request.reason,
                why,
            )
