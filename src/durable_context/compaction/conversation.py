"""Which conversation a branch belongs to, where that may be shown."""

from typing import Protocol
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.policy import CompactionPolicy


class OfBranch(Protocol):
    """A request that is for one branch."""

    @property
    def tenant(self) -> str: ...

    @property
    def branch_uuid(self) -> UUID: ...

    @property
    def policy(self) -> CompactionPolicy: ...


async def shown_conversation(pool: Pool, request: OfBranch) -> str:
    """Its id where policy exposes ids; the branch's own stands in for it. Never fails: it is for
    those who look on.
    """
    if not request.policy.expose_ids:
        return str(request.branch_uuid)
    try:
        async with acquired(pool) as connection:
            found = await connection.fetchval(
                "select conversation_id from durable_context.branches"
                " where tenant = $1 and branch_uuid = $2",
                request.tenant,
                request.branch_uuid,
            )
    except Exception:
        found = None
    return found or str(request.branch_uuid)
