"""The branch that is verified, as its row says it is."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from durable_context.database import Connection
from durable_context.verification.findings import IDS, Check, Finding, Severity

_SUBJECT = """
select b.tenant, b.branch_uuid, b.conversation_id, b.branch_id, b.parent_uuid, b.fork_turn,
    b.parent_publication, b.head_turn, b.head_tokens, b.open_run_turn, b.checkpoint_turn,
    b.checkpoint_tokens, b.artifact_count, b.publication
from durable_context.branches b where b.tenant = $1 and b.branch_uuid = $2
"""


class Subject(NamedTuple):
    """A row of branches."""

    tenant: str
    branch_uuid: UUID
    conversation_id: str
    branch_id: str
    parent_uuid: UUID | None
    fork_turn: int | None
    parent_publication: int | None
    head_turn: int
    head_tokens: int
    open_run_turn: int | None
    checkpoint_turn: int
    checkpoint_tokens: int
    artifact_count: int
    publication: int

    def finding(
        self,
        check: Check,
        expected: object,
        found: object,
        *,
        turns: tuple[int | None, int | None] = (None, None),
        ids: Iterable[object] = (),
        severity: Severity = "error",
    ) -> Finding:
        return Finding(
            check=check,
            severity=severity,
            conversation_id=self.conversation_id,
            branch_id=self.branch_id,
            branch_uuid=self.branch_uuid,
            from_turn=turns[0],
            to_turn=turns[1],
            ids=tuple(str(one) for one in ids)[:IDS],
            expected=str(expected),
            found=str(found),
        )


class Look(NamedTuple):
    """A subject, and the connection whose transaction shows it at one moment."""

    connection: Connection
    subject: Subject

    async def rows(self, statement: str, *arguments: object) -> list[Any]:
        """$1 and $2 of the statement are the tenant and the branch."""
        return await self.connection.fetch(
            statement, self.subject.tenant, self.subject.branch_uuid, *arguments
        )

    async def row(self, statement: str, *arguments: object) -> Any:
        """The first row, or None."""
        return await self.connection.fetchrow(
            statement, self.subject.tenant, self.subject.branch_uuid, *arguments
        )


async def find_subject(connection: Connection, tenant: str, branch_uuid: UUID) -> Subject | None:
    row = await connection.fetchrow(_SUBJECT, tenant, branch_uuid)
    return Subject(*row) if row else None
