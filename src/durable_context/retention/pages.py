"""What all kinds of rows have in common: a batch is found by key, and then taken with another look
at what it must not be.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Connection, Pool
from durable_context.retention.policy import RetentionPolicy
from durable_context.retention.report import Kind

BATCH: Final = 500
"""Rows that are looked at, and at most taken, in one transaction."""


class Found(NamedTuple):
    """A row that was looked at. `due`: nothing needs it, and it is old enough. `state` is what it
    was when it was looked at, and `branch` its branch, where it has them.
    """

    key: tuple[str, ...]
    due: bool
    kind: Kind
    bytes: int
    id: Any
    state: str = ""
    branch: UUID | None = None


class Search(NamedTuple):
    """Whose rows are looked for, and by what policy. A dry run remembers what would be gone by now:
    `branches` of conversations, and `checkpoints`.
    """

    pool: Pool
    contents: ContentStore
    tenant: str
    policy: RetentionPolicy
    branches: list[UUID]
    checkpoints: list[UUID]


class Rows(Protocol):
    """One table's part in retention."""

    name: str
    first: tuple[str, ...]

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        """The next rows by key, up to BATCH, fewer only at the end. Reads only."""
        ...

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[Any]:
        """Ids of those that are gone now: the others came into use, or were taken by another."""
        ...


async def allow_deletes(connection: Connection) -> None:
    """Until the transaction ends."""
    await connection.execute("set local durable_context.retention = 'on'")


async def lock_branches(connection: Connection, tenant: str, branches: Sequence[UUID]) -> None:
    """No turn is recorded, nothing published and no fork made of these until the transaction ends;
    whoever has begun is waited for.
    """
    await connection.execute(
        "select from durable_context.branches where tenant = $1 and branch_uuid = any($2::uuid[])"
        " order by branch_uuid for update",
        tenant,
        branches,
    )


def branches_of(due: Sequence[Found]) -> list[UUID]:
    return sorted({found.branch for found in due if found.branch is not None})
