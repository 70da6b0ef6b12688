"""Objects of the object store that no content names: what a writer left that was killed before its
turn was recorded.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from durable_context.database import Connection
from durable_context.retention.pages import Found, Search

_NAMED: Final = """
select c.object_key from durable_context.artifact_contents c
where c.tenant = $1 and c.sha256 = any($2::bytea[]) and c.object_key is not null
"""
_SHARDS: Final = [f"{number:02x}" for number in range(256)]
_NEXT: Final = dict(zip(["", *_SHARDS], _SHARDS, strict=False))


class UnnamedObjects:
    """By the first two digits of their hashes. Only where a tenant asks for it: see the policy."""

    name = "objects"
    first: tuple[str, ...] = ("",)

    async def find(
        self, connection: Connection, search: Search, after: tuple[str, ...]
    ) -> list[Found]:
        age, shard = search.policy.objects_after, _NEXT.get(after[0])
        if age is None or shard is None:
            return []
        before = datetime.now(UTC) - age
        listed = await search.contents.kept_objects(search.tenant, shard)
        old = [each for each in listed if each.modified < before]
        named = await _named(connection, search.tenant, [each.sha256 for each in old])
        end = Found((shard,), False, "objects", 0, None)
        return [
            *(
                Found((shard,), True, "objects", each.size, each.key)
                for each in old
                if each.key not in named
            ),
            end,
        ]

    async def take(
        self, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[str]:
        assert search.policy.objects_after is not None
        before = datetime.now(UTC) - search.policy.objects_after
        keys = [found.id for found in due]
        return [key for key in keys if await search.contents.forget(search.tenant, key, before)]


async def _named(connection: Connection, tenant: str, hashes: Sequence[bytes]) -> set[str]:
    if not hashes:
        return set()
    rows = await connection.fetch(_NAMED, tenant, hashes)
    return {row["object_key"] for row in rows}
