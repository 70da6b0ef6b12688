"""One node of the summary tree at a time: what it is made of, what stands above it, and what it
replaced.
"""

from typing import Final
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.errors import SummaryNotFound
from durable_context.models import Summary
from durable_context.store import SEEN_SUMMARY_COLUMNS, SUMMARY_COLUMNS, summary_from_row

MOST_NODES: Final = 100
"""Below a node, above it, or replaced by it; policies make far fewer."""

_FIND: Final = f"""
select {SEEN_SUMMARY_COLUMNS} from durable_context.visible_summaries
where tenant = $1 and seen_by = $2 and summary_id = $3
union all
select {SUMMARY_COLUMNS} from durable_context.summaries
where tenant = $1 and branch_uuid = $2 and summary_id = $3 and replaced_in is not null
    and published_in is not null
limit 1
"""
_SEEN: Final = f"""
select {SEEN_SUMMARY_COLUMNS} from durable_context.visible_summaries
where tenant = $1 and seen_by = $2 and """
_BELOW: Final = _SEEN + (
    f"level = $3 - 1 and from_turn >= $4 and to_turn <= $5 order by from_turn limit {MOST_NODES}"
)
_ABOVE: Final = _SEEN + (
    f"level > $3 and from_turn <= $4 and to_turn >= $5 order by level limit {MOST_NODES}"
)
_CURRENT: Final = _SEEN + "level = $3 and from_turn = $4 and to_turn = $5 limit 1"
_REPLACED: Final = f"""
select {SUMMARY_COLUMNS} from durable_context.summaries
where tenant = $1 and branch_uuid = $2 and level = $3 and from_turn = $4 and to_turn = $5
    and replaced_in is not null and published_in is not null
order by created_at desc limit {MOST_NODES}
"""


class Nodes:
    """Of one tenant's branch, as it sees them."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID) -> None:
        self._pool = pool
        self._key = tenant, branch_uuid

    async def find(self, summary_id: UUID) -> Summary:
        """One that the branch sees, or that another replaced. Raises SummaryNotFound."""
        found = await self._read(_FIND, summary_id)
        if not found:
            raise SummaryNotFound(f"the branch sees no summary {summary_id}")
        return found[0]

    async def below(self, node: Summary) -> tuple[Summary, ...]:
        """Those it was made of, oldest first; none of a leaf."""
        return await self._read(_BELOW, node.level, node.from_turn, node.to_turn)

    async def above(self, level: int, from_turn: int, to_turn: int) -> tuple[Summary, ...]:
        """Those of higher levels that cover the turns, by level."""
        return await self._read(_ABOVE, level, from_turn, to_turn)

    async def current(self, node: Summary) -> Summary | None:
        """The one at its place by now."""
        found = await self._read(_CURRENT, node.level, node.from_turn, node.to_turn)
        return found[0] if found else None

    async def replaced(self, node: Summary) -> tuple[Summary, ...]:
        """The branch's own that stood at its place, newest first, as long as retention keeps
        them.
        """
        return await self._read(_REPLACED, node.level, node.from_turn, node.to_turn)

    async def _read(self, statement: str, *values: object) -> tuple[Summary, ...]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(statement, *self._key, *values)
        return tuple(map(summary_from_row, rows))
