"""Branches whose newest checkpoint has as many nodes of one level as merge into one: compaction
after turns left the merge, or the fan-out is smaller than it was.
"""

from uuid import UUID

from durable_context.database import Pool
from durable_context.sweeps.paging import DUE_AND_LAST, PAGE, Page, fetch_page

# A fork whose newest checkpoint is its parent's follows that. A merge that was skipped because it
# cannot pay stays skipped until the branch is used again.
_PILED_UP = f"""
{PAGE},
marked as (
    select l.*, 0 as tokens, false as is_unindexed, l.is_open and l.checkpoint_turn > 0 and exists (
        select from durable_context.checkpoints c
        cross join unnest(c.frontier) f (summary_id)
        join durable_context.summaries s on s.tenant = c.tenant and s.summary_id = f.summary_id
        where c.tenant = l.tenant and c.branch_uuid = l.branch_uuid
            and c.turn_no = l.checkpoint_turn and c.state = 'current'
            and cardinality(c.frontier) >= $3
        group by s.level having count(*) >= $3 and not exists (
            select from durable_context.compactions k
            where k.tenant = l.tenant and k.branch_uuid = l.branch_uuid and k.status = 'skipped'
                and k.level = s.level + 1 and k.from_turn = min(s.from_turn)
                and k.finished_at > l.used_at
        )
    ) as is_due
    from looked_at l
)
{DUE_AND_LAST}
"""


class PiledUpBranches:
    def __init__(self, pool: Pool, tenant: str | None, fan_out: int) -> None:
        self._pool = pool
        self._tenant = tenant
        self._fan_out = fan_out

    async def page(self, after: UUID) -> Page:
        return await fetch_page(self._pool, _PILED_UP, after, self._tenant, self._fan_out)
