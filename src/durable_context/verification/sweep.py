"""Verification of all branches, page by page, for a sweep that can be interrupted anywhere."""

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from uuid import UUID

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Pool, acquired
from durable_context.errors import UnknownBranch
from durable_context.verification.findings import Finding, Verified
from durable_context.verification.leftovers import unowned_findings
from durable_context.verification.verifying import nobody, verify_branch

NAMED = 100
"""Findings that a page names."""
UNOWNED = "unowned"
"""The cursor of the last page, which is of rows that no branch owns."""

# All tenants' where $1 is null.
_NEXT = """
select b.tenant, b.branch_uuid from durable_context.branches b
where ($1::text is null or b.tenant = $1) and b.branch_uuid > $2
    and ($3::text is null or b.conversation_id = $3)
order by b.branch_uuid limit $4
"""


class VerifiedPage(NamedTuple):
    """`cursor` begins the next page; None: this was the last. Counts are of this page alone.

    `findings` are the first 100 of `found`, of which `errors` are errors and `told` are new.
    """

    cursor: str | None
    branches: int = 0
    turns: int = 0
    contents: int = 0
    unverifiable: int = 0
    found: int = 0
    errors: int = 0
    told: int = 0
    findings: tuple[Finding, ...] = ()

    def with_more(self, verified: Verified) -> "VerifiedPage":
        errors = sum(finding.severity == "error" for finding in verified.findings)
        return self._replace(
            branches=self.branches + (verified.branch_uuid is not None),
            turns=self.turns + verified.turns,
            contents=self.contents + verified.contents,
            unverifiable=self.unverifiable + verified.unverifiable,
            found=self.found + len(verified.findings),
            errors=self.errors + errors,
            told=self.told + verified.told,
            findings=(*self.findings, *verified.findings)[:NAMED],
        )


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
    of many MB. Repeating a page is harmless. Raises DatabaseUnavailable, ArtifactStoreUnavailable.
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
            verified = await verify_branch(pool, contents, owner, branch_uuid, alive=alive)
        except UnknownBranch:  # deleted since
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
        due = await next_branches(pool, tenant, after, NAMED, conversation_id)
        for _, branch_uuid in due:
            try:
                yield await verify_branch(pool, contents, tenant, branch_uuid)
            except UnknownBranch:
                continue
        after = due[-1][1] if len(due) == NAMED else None
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
