"""Verification of one branch: its rows at one moment, then the contents of its artifacts."""

from collections.abc import AsyncIterator, Callable
from uuid import UUID

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import (
    ArtifactStoreUnavailable,
    DatabaseUnavailable,
    SchemaMissing,
    UnknownBranch,
)
from durable_context.verification.checkpoints import CheckpointsOf
from durable_context.verification.contents import ContentsOf
from durable_context.verification.damages import tell
from durable_context.verification.findings import Finding, Verified
from durable_context.verification.leftovers import leftover_findings
from durable_context.verification.lineage import artifact_number_findings, lineage_findings
from durable_context.verification.nodes import NodesOf
from durable_context.verification.subject import Look, Subject, find_subject
from durable_context.verification.turns import TurnsOf

MOST = 1_000
"""Findings of one branch that are kept and told: whoever has more has them all."""

_OF_NO_BRANCH = (ArtifactStoreUnavailable, DatabaseUnavailable, SchemaMissing, UnknownBranch)


def nobody() -> None:
    pass


async def verify_branch(
    pool: Pool,
    contents: ContentStore,
    tenant: str,
    branch_uuid: UUID,
    *,
    alive: Callable[[], None] = nobody,
) -> Verified:
    """What the branch wrote itself, and how it stands to its ancestors. Reads all of it, a page at
    a time, and writes nothing but an event for each new finding; that it cannot be read is one.

    `alive` is called with each finding and each step. Raises UnknownBranch,
    ArtifactStoreUnavailable, DatabaseUnavailable.
    """
    try:
        return await _verified(pool, contents, tenant, branch_uuid, alive)
    except _OF_NO_BRANCH:
        raise
    except Exception as error:
        return await _unreadable(pool, tenant, branch_uuid, error)


async def _verified(
    pool: Pool,
    contents: ContentStore,
    tenant: str,
    branch_uuid: UUID,
    alive: Callable[[], None],
) -> Verified:
    subject, verified = await _verified_rows(pool, tenant, branch_uuid, alive)
    of_contents = ContentsOf(pool, contents, subject)
    found = [*verified.findings]
    await _gather(of_contents.findings(), found, alive)
    return verified._replace(
        contents=of_contents.contents,
        findings=tuple(found),
        told=await tell(pool, subject, found),
    )


async def _unreadable(pool: Pool, tenant: str, branch_uuid: UUID, error: Exception) -> Verified:
    """Names the kind of error alone: its message may quote content."""
    async with acquired(pool) as connection:
        subject = await _subject_of(connection, tenant, branch_uuid)
    found = subject.finding("unreadable", "rows that can be read", type(error).__name__)
    return Verified(
        conversation_id=subject.conversation_id,
        branch_id=subject.branch_id,
        branch_uuid=branch_uuid,
        findings=(found,),
        told=await tell(pool, subject, [found]),
    )


async def _subject_of(connection: Connection, tenant: str, branch_uuid: UUID) -> Subject:
    subject = await find_subject(connection, tenant, branch_uuid)
    if subject is None:
        raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
    return subject


async def _verified_rows(
    pool: Pool, tenant: str, branch_uuid: UUID, alive: Callable[[], None]
) -> tuple[Subject, Verified]:
    """As one snapshot shows them, so that what is written meanwhile is no finding."""
    async with (
        acquired(pool) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        subject = await _subject_of(connection, tenant, branch_uuid)
        look = Look(connection, subject)
        turns, nodes, checkpoints = TurnsOf(look), NodesOf(look), CheckpointsOf(look)
        found: list[Finding] = []
        for findings in (
            turns.findings(),
            lineage_findings(look),
            artifact_number_findings(look),
            nodes.findings(),
            checkpoints.findings(),
            leftover_findings(look),
        ):
            alive()
            await _gather(findings, found, alive)
    verified = Verified(
        conversation_id=subject.conversation_id,
        branch_id=subject.branch_id,
        branch_uuid=branch_uuid,
        turns=turns.turns,
        nodes=nodes.nodes,
        checkpoints=checkpoints.checkpoints,
        unverifiable=turns.unverifiable + nodes.unverifiable,
        findings=tuple(found),
    )
    return subject, verified


async def _gather(
    findings: AsyncIterator[Finding], found: list[Finding], alive: Callable[[], None]
) -> None:
    async for finding in findings:
        alive()
        if len(found) < MOST:
            found.append(finding)
