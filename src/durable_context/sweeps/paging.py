"""Branches in the order of their keys, a bounded number of rows to a statement, those that are due
picked in the database.
"""

from typing import NamedTuple, Protocol
from uuid import UUID

from durable_context.database import Pool, acquired

PAGE_ROWS = 1_000
"""Rows that one statement looks at. A literal in it: the plan is made for a page, not a table."""
FIRST = UUID(int=0)

# $1: the key to go on after. $2: the tenant, null for all, which is looked at after the page was
# cut: a page costs the same however few of its branches belong to the tenant.
PAGE = f"""
with page as materialized (
    select b.branch_uuid, b.tenant, b.parent_uuid, b.head_turn, b.checkpoint_turn, b.open_run_turn,
        b.head_tokens - b.checkpoint_tokens as tail_tokens, b.publication, b.paused_at,
        coalesce(b.last_turn_at, b.created_at) as used_at
    from durable_context.branches b where b.branch_uuid > $1
    order by b.branch_uuid limit {PAGE_ROWS}
),
looked_at as materialized (
    select p.*, row_number() over (order by p.branch_uuid)::integer as nth,
        count(*) over ()::integer as page_rows,
        ($2::text is null or p.tenant = $2) and p.paused_at is null and t.paused_at is null
            as is_open
    from page p left join durable_context.tenants t on t.tenant = p.tenant
)
"""
# Of a relation `marked`: the rows that are due, and the last one, which says where the page ends.
DUE_AND_LAST = """
select nth, page_rows, is_due, is_unindexed, branch_uuid, tenant, head_turn, checkpoint_turn,
    used_at, tokens
from marked where is_due or nth = page_rows order by nth
"""


class DueBranch(NamedTuple):
    """`nth` in its page, from 1. `used_at` is in seconds since 1970. `tokens`: what upgrading it
    reads, at least. `is_unindexed`: what was published last cannot be found yet.
    """

    nth: int
    tenant: str
    branch_uuid: UUID
    head_turn: int
    checkpoint_turn: int
    used_at: float
    tokens: int
    is_unindexed: bool


class Page(NamedTuple):
    """`after`: the key of its last row. `is_last`: no rows follow."""

    due: list[DueBranch]
    rows: int
    after: UUID
    is_last: bool


class Pages(Protocol):
    """One kind of search for branches."""

    async def page(self, after: UUID) -> Page: ...


async def fetch_page(pool: Pool, statement: str, after: UUID, *arguments: object) -> Page:
    """`statement` begins with PAGE and ends with DUE_AND_LAST."""
    async with acquired(pool) as connection:
        rows = await connection.fetch(statement, after, *arguments)
    if not rows:
        return Page([], 0, after, is_last=True)
    due = [
        DueBranch(
            row["nth"],
            row["tenant"],
            row["branch_uuid"],
            row["head_turn"],
            row["checkpoint_turn"],
            row["used_at"].timestamp(),
            row["tokens"],
            row["is_unindexed"],
        )
        for row in rows
        if row["is_due"]
    ]
    count: int = rows[-1]["page_rows"]
    return Page(due, count, rows[-1]["branch_uuid"], is_last=count < PAGE_ROWS)
