"""Contents that no artifact names, and what prompts were made with that no turn names. Whoever is
about to name one holds its row, and retention passes over rows that are held.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from durable_context.database import Connection
from durable_context.retention.pages import BATCH, Found, Search, allow_deletes

OBJECT_GRACE: Final = timedelta(hours=1)
"""An object that was written since may be of a turn that is about to be recorded."""

_FIND: Final = """
select encode(c.sha256, 'hex') as key, c.sha256, c.object_key,
    coalesce(octet_length(c.data), c.size) as bytes, coalesce(
        c.created_at < clock_timestamp() - $4::interval and not exists (
            select from durable_context.artifacts a
            where a.tenant = $1 and a.sha256 = c.sha256 and a.branch_uuid <> all($5::uuid[])
        ), false
    ) as due
from durable_context.artifact_contents c
where c.tenant = $1 and c.sha256 > decode($2, 'hex') order by c.sha256 limit $3
"""
_FIND_THESE: Final = """
select encode(c.sha256, 'hex') as key, c.sha256, c.object_key,
    coalesce(octet_length(c.data), c.size) as bytes, not exists (
        select from durable_context.artifacts a
        where a.tenant = $1 and a.sha256 = c.sha256 and a.branch_uuid <> all($3::uuid[])
    ) as due
from durable_context.artifact_contents c where c.tenant = $1 and c.sha256 = any($2::bytea[])
"""
_HOLD: Final = """
select c.sha256, c.object_key from durable_context.artifact_contents c
where c.tenant = $1 and c.sha256 = any($2::bytea[]) order by c.sha256 for update skip locked
"""
# A statement of its own: it sees what was recorded before the rows were held.
_UNNAMED: Final = """
select h.sha256 from unnest($2::bytea[]) h (sha256)
where not exists (
    select from durable_context.artifacts a where a.tenant = $1 and a.sha256 = h.sha256
)
"""
_TAKE_SUMMARIES: Final = """
delete from durable_context.artifact_summaries s
where s.tenant = $1 and s.sha256 = any($2::bytea[])
"""
_TAKE: Final = """
delete from durable_context.artifact_contents c
where c.tenant = $1 and c.sha256 = any($2::bytea[])
"""
_FIND_PARTS: Final = """
select encode(p.hash, 'hex') as key, p.hash, pg_column_size(p.parts) as bytes, coalesce(
    p.created_at < clock_timestamp() - $4::interval and not exists (
        select from durable_context.turns t where t.tenant = $1 and t.prompt_parts_hash = p.hash
            and t.branch_uuid <> all($5::uuid[])
    ), false
) as due
from durable_context.prompt_parts p
where p.tenant = $1 and p.hash > decode($2, 'hex') order by p.hash limit $3
"""
_FIND_THESE_PARTS: Final = """
select encode(p.hash, 'hex') as key, p.hash, pg_column_size(p.parts) as bytes, not exists (
    select from durable_context.turns t where t.tenant = $1 and t.prompt_parts_hash = p.hash
        and t.branch_uuid <> all($3::uuid[])
) as due
from durable_context.prompt_parts p where p.tenant = $1 and p.hash = any($2::bytea[])
"""
_HOLD_PARTS: Final = """
select p.hash from durable_context.prompt_parts p
where p.tenant = $1 and p.hash = any($2::bytea[]) order by p.hash for update skip locked
"""
_TAKE_PARTS: Final = """
delete from durable_context.prompt_parts p
where p.tenant = $1 and p.hash = any($2::bytea[]) and not exists (
    select from durable_context.turns t where t.tenant = $1 and t.prompt_parts_hash = p.hash
)
returning p.hash
"""


class UnnamedContents:
    """The object of a content goes first, while its row is held: a row without one is named by
    nobody, and goes with the next batch, or gets its object back from whoever keeps it again.
    """

    name = "contents"
    first: tuple[str, ...] = ("",)

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        rows = await connection.fetch(
            _FIND, search.tenant, after[0], BATCH, search.policy.contents_after, search.branches
        )
        return [await _content(search, *row) for row in rows]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[bytes]:
        async with connection.transaction():
            await allow_deletes(connection)
            wanted = [found.id for found in due]
            held = {
                row["sha256"]: row["object_key"]
                for row in await connection.fetch(_HOLD, search.tenant, wanted)
            }
            rows = await connection.fetch(_UNNAMED, search.tenant, list(held))
            gone: list[bytes] = []
            for (sha256,) in rows:
                if await _without_object(search, held[sha256]):
                    gone.append(sha256)
            await connection.execute(_TAKE_SUMMARIES, search.tenant, gone)
            await connection.execute(_TAKE, search.tenant, gone)
        return gone


class UnnamedPromptParts:
    """Instructions and tools."""

    name = "prompt_parts"
    first: tuple[str, ...] = ("",)

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        age = search.policy.prompt_parts_after
        rows = await connection.fetch(
            _FIND_PARTS, search.tenant, after[0], BATCH, age, search.branches
        )
        return [_parts(*row) for row in rows]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[bytes]:
        async with connection.transaction():
            await allow_deletes(connection)
            wanted = [found.id for found in due]
            held = await connection.fetch(_HOLD_PARTS, search.tenant, wanted)
            rows = await connection.fetch(_TAKE_PARTS, search.tenant, [row["hash"] for row in held])
        return [row["hash"] for row in rows]


async def find_contents(
    connection: Connection, search: Search, hashes: Sequence[bytes]
) -> list[Found]:
    """Of these, however old they are."""
    rows = await connection.fetch(_FIND_THESE, search.tenant, hashes, search.branches)
    return [await _content(search, *row) for row in rows]


async def find_prompt_parts(
    connection: Connection, search: Search, hashes: Sequence[bytes]
) -> list[Found]:
    """Of these, however old they are."""
    rows = await connection.fetch(_FIND_THESE_PARTS, search.tenant, hashes, search.branches)
    return [_parts(*row) for row in rows]


async def _content(
    search: Search, key: str, sha256: bytes, object_key: str | None, size: int, due: bool
) -> Found:
    if due and object_key is not None:
        due = await search.contents.is_idle(search.tenant, object_key, _before())
    return Found((key,), due, "contents", size, sha256)


def _parts(key: str, parts_hash: bytes, size: int, due: bool) -> Found:
    return Found((key,), due, "prompt_parts", size, parts_hash)


async def _without_object(search: Search, object_key: str | None) -> bool:
    if object_key is None:
        return True
    return await search.contents.forget(search.tenant, object_key, _before())


def _before() -> datetime:
    return datetime.now(UTC) - OBJECT_GRACE
