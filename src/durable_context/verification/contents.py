"""Contents of artifacts: there, of their size and with their hash, in the object store too."""

from collections.abc import AsyncIterator
from typing import Any

from durable_context.artifacts.contents import ContentStore, StoredContent
from durable_context.database import Pool, acquired
from durable_context.errors import ArtifactDamaged
from durable_context.verification.findings import Finding
from durable_context.verification.subject import Subject

PAGE = 100

# What the branch's own artifacts name, each content once; `data` comes one at a time.
_NAMED = f"""
select c.sha256, c.size, c.compression, c.object_key, a.from_turn, a.to_turn, a.handle
from (
    select a.sha256, min(a.turn_no) as from_turn, max(a.turn_no) as to_turn, min(a.handle) as handle
    from durable_context.artifacts a
    where a.tenant = $1 and a.branch_uuid = $2 and a.sha256 > $3
    group by a.sha256 order by a.sha256 limit {PAGE}
) a
join durable_context.artifact_contents c on c.tenant = $1 and c.sha256 = a.sha256
order by c.sha256
"""
_DATA = """
select c.data from durable_context.artifact_contents c where c.tenant = $1 and c.sha256 = $2
"""


class ContentsOf:
    """The contents that the branch's own artifacts name, one at a time in memory."""

    def __init__(self, pool: Pool, contents: ContentStore, subject: Subject) -> None:
        self._pool = pool
        self._contents = contents
        self._subject = subject
        self.contents = 0

    async def findings(self) -> AsyncIterator[Finding]:
        """Raises ArtifactStoreUnavailable."""
        last = b""
        while rows := await self._named(last):
            for row in rows:
                if not await self._is_whole(row):
                    where = " in the object store" if row["object_key"] else ""
                    yield self._subject.finding(
                        "content_hash",
                        f"{row['size']} bytes with their hash{where}",
                        "others, or none",
                        turns=(row["from_turn"], row["to_turn"]),
                        ids=[row["handle"], row["sha256"].hex()],
                    )
                self.contents += 1
            last = rows[-1]["sha256"]

    async def _named(self, after: bytes) -> list[Any]:
        async with acquired(self._pool) as connection:
            subject = self._subject
            return await connection.fetch(_NAMED, subject.tenant, subject.branch_uuid, after)

    async def _is_whole(self, row: Any) -> bool:
        tenant = self._subject.tenant
        data: bytes | None = None
        if row["object_key"] is None:
            async with acquired(self._pool) as connection:
                data = await connection.fetchval(_DATA, tenant, row["sha256"])
            if data is None:
                return False
        stored = (row["sha256"], row["size"], row["compression"], data, row["object_key"])
        try:
            await self._contents.load(tenant, StoredContent(*stored))
        except ArtifactDamaged:
            return False
        return True
