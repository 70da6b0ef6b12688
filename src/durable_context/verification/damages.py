"""Findings that stand, so that each is told by one event."""

from collections.abc import Sequence

from durable_context import stored_json
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import UnknownBranch
from durable_context.verification.findings import Finding
from durable_context.verification.subject import Subject

_MENDED = """
delete from durable_context.damages
where tenant = $1 and branch_uuid = $2 and hash <> all($3::bytea[])
"""
# Whoever deletes it is waited for, or waits.
_IS_THERE = """
select from durable_context.branches where tenant = $1 and branch_uuid = $2 for key share
"""
_NEW = """
insert into durable_context.damages (tenant, branch_uuid, hash, finding)
select $1, $2, f.hash, f.finding from unnest($3::bytea[], $4::json[]) f (hash, finding)
on conflict do nothing returning hash
"""
_TELL = "select durable_context.note_event($1, $2, 'damaged', $3, null, $4)"


async def tell(pool: Pool, subject: Subject, findings: Sequence[Finding]) -> int:
    """Write an event of each that was not found the last time; how many that were.

    What is found no more is forgotten: should it come back, it is told again. Raises UnknownBranch
    where the branch was deleted meanwhile.
    """
    known = {finding.hash: finding for finding in findings}
    async with acquired(pool) as connection, connection.transaction():
        if not await connection.fetch(_IS_THERE, subject.tenant, subject.branch_uuid):
            raise UnknownBranch("the branch was deleted while it was verified")
        await connection.execute(_MENDED, subject.tenant, subject.branch_uuid, list(known))
        if not known:
            return 0
        dumped = [stored_json.dumps(finding.figures) for finding in known.values()]
        new = await connection.fetch(_NEW, subject.tenant, subject.branch_uuid, list(known), dumped)
        added = {row["hash"] for row in new}
        for key, finding in known.items():
            if key in added:
                await _note(connection, subject, finding)
    return len(added)


async def _note(connection: Connection, subject: Subject, finding: Finding) -> None:
    await connection.execute(
        _TELL,
        subject.tenant,
        subject.branch_uuid,
        finding.to_turn,
        stored_json.dumps(finding.figures),
    )
