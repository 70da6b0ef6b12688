"""Verification of all branches, page by page, for a sweep that can be interrupted anywhere."""

import logging
from collections.abc import AsyncIterator, Callable
from functools import partial
from uuid import UUID

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool, acquired, answers, asked_again
from durable_context.errors import UnknownBranch
from durable_context.verification.findings import Finding, Verified
from durable_context.verification.leftovers import unowned_findings
from durable_context.verification.report import VerificationReport
from durable_context.verification.verifying import nobody, verify_branch

logger = logging.getLogger(__name__)

AT_ONCE = 100
"""Branches that one statement looks up."""
UNOWNED = "unowned"
"""The cursor of the last page, which is of rows that no branch owns."""

# All tenants' where $1 is null.
_NEXT = """
select b.tenant, b.branch_uuid from durable_context.branches b
where ($1::text is null or b.tenant = $1) and b.branch_uuid > $2
    and ($3::text is null or b.conversation_id = $3)
order by b.branch_uuid limit $4
"""


class VerifiedPage(VerificationReport):
    """Sums of one page alone. `cursor` begins the next one; None: this was the last. `failed`
    counts branches that could not be verified, for this time.
    """

    failed: int = 0
    cursor: str | None = None


async def run_page(
    pool: Pool,
    contents: ContentStore,
    tenant: str | None = None,
    cursor: str = "",
    limit: int = 100,
    *,
    alive: Callable[[], None] = nobody,
) -> VerifiedPage:
    """Verify the next `limit` branches after `cursor` ("" to begin), then rows that no branch
    owns. None as `tenant`: of all.

    `alive` is called between steps, for a heartbeat; one takes seconds at most but for contents
    of many MB. Repeating a page is harmless. Raises DatabaseUnavailable.
    """
    if cursor == UNOWNED:
        found = [finding async for finding in unowned_findings(pool, tenant, alive)]
        return VerifiedPage(cursor=None).with_more(of_no_branch(found))
    after = UUID(cursor) if cursor else UUID(int=0)
    due = await next_branches(pool, tenant, after, limit)
    page = VerifiedPage(cursor=str(due[-1][1]) if len(due) == limit else UNOWNED)
    for owner, branch_uuid in due:
        alive()
        try:
            verified = await asked_again(
                pool, partial(verify_branch, pool, contents, owner, branch_uuid, alive=alive)
            )
        except UnknownBranch:  # deleted since
            continue
        except Exception as error:
            await answers(pool)
            logger.warning("branch %s is not verified: %s", branch_uuid, type(error).__name__)
            page = page.model_copy(update={"failed": page.failed + 1})
            continue
        page = page.with_more(verified)
    return page


async def verify_all(
    pool: Pool, contents: ContentStore, tenant: str, conversation_id: str | None
) -> AsyncIterator[Verified]:
    """Each branch of a tenant, or of one of its conversations; then, of a tenant, rows that no
    branch owns.
    """
    after: UUID | None = UUID(int=0)
    while after is not None:
        due = await next_branches(pool, tenant, after, AT_ONCE, conversation_id)
        for _, branch_uuid in due:
            try:
                yield await verify_branch(pool, contents, tenant, branch_uuid)
            except UnknownBranch:
                continue
        after = due[-1][1] if len(due) == AT_ONCE else None
    if conversation_id is None:
        yield of_no_branch([one async for one in unowned_findings(pool, tenant, nobody)])


async def next_branches(
    pool: Pool, tenant: str | None, after: UUID, limit: int, conversation_id: str | None = None
) -> list[tuple[str, UUID]]:
    """Tenant and branch, by key."""
    async with acquired(pool) as connection:
        rows = await connection.fetch(_NEXT, tenant, after, conversation_id, limit)
    return [(row["tenant"], row["branch_uuid"]) for row in rows]


def of_no_branch(found: list[Finding]) -> Verified:
    return Verified(None, None, None, findings=tuple(found))
