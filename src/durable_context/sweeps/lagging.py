"""Branches whose turns wait for compaction, or whose published nodes wait for the index, because
hints of them were lost, Temporal was away, or they were imported.
"""

from datetime import timedelta
from uuid import UUID

from durable_context.compaction.node_index import UNINDEXED
from durable_context.database import Pool
from durable_context.policy import CompactionPolicy
from durable_context.sweeps.paging import DUE_AND_LAST, PAGE, Page, fetch_page

# An open run shows more tokens than are stored, and keeps some of its turns raw: the database errs
# on the side of asking, and whoever starts the work looks closely. A branch that is always in use
# is due when the turn that filled a segment is as old as the grace.
_LAGGING = f"""
{PAGE},
judged as materialized (
    select l.*,
        l.head_turn - $3 > l.checkpoint_turn
            and (l.head_turn - $3 - l.checkpoint_turn >= $4 or l.tail_tokens >= $5) as is_behind,
        exists (
            select from durable_context.branches b
            where b.tenant = l.tenant and b.branch_uuid = l.branch_uuid and {UNINDEXED}
        ) as is_unindexed
    from looked_at l
),
marked as (
    select j.*, 0 as tokens,
        j.is_open and (
            j.used_at <= now() - $6::interval and (j.is_behind or j.is_unindexed)
            or j.is_behind and exists (
                select from durable_context.visible_turns t
                where t.tenant = j.tenant and t.seen_by = j.branch_uuid
                    and t.turn_no = j.checkpoint_turn + $3 + $4
                    and t.recorded_at <= now() - $6::interval
            )
        ) as is_due
    from judged j
)
{DUE_AND_LAST}
"""


class LaggingBranches:
    """`grace`: a branch that was used so lately, or had a segment filled, is left to its hints."""

    def __init__(
        self, pool: Pool, tenant: str | None, policy: CompactionPolicy, grace: timedelta
    ) -> None:
        self._pool = pool
        self._tenant = tenant
        self._policy = policy
        self._grace = grace

    async def page(self, after: UUID) -> Page:
        policy = self._policy
        return await fetch_page(
            self._pool,
            _LAGGING,
            after,
            self._tenant,
            policy.keep_raw_turns,
            policy.segment_turns,
            policy.segment_tokens,
            self._grace,
        )
