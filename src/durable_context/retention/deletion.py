"""One conversation that is to be gone: at once, with what nothing else names."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import UnknownBranch
from durable_context.retention.contents import (
    UnnamedContents,
    UnnamedPromptParts,
    find_contents,
    find_prompt_parts,
)
from durable_context.retention.conversations import (
    branches_of_conversation,
    delete_branches,
    lock_conversation,
    size_of,
)
from durable_context.retention.pages import Found, Search
from durable_context.retention.policy import RetentionPolicy
from durable_context.retention.report import RetentionReport, Taken, summed

_CONTENTS: Final = """
select distinct a.sha256 from durable_context.artifacts a
where a.tenant = $1 and a.branch_uuid = any($2::uuid[])
"""
_PARTS: Final = """
select distinct t.prompt_parts_hash from durable_context.turns t
where t.tenant = $1 and t.branch_uuid = any($2::uuid[]) and t.prompt_parts_hash is not null
"""


async def delete_conversation(
    pool: Pool, contents: ContentStore, tenant: str, conversation_id: str, *, dry_run: bool
) -> RetentionReport:
    """As `ContextClient.delete_conversation`."""
    async with acquired(pool) as connection:
        branches = await branches_of_conversation(connection, tenant, conversation_id)
        hashes = [row[0] for row in await connection.fetch(_CONTENTS, tenant, branches)]
        parts = [row[0] for row in await connection.fetch(_PARTS, tenant, branches)]
        size = await size_of(connection, tenant, branches)
        if not dry_run and branches:
            branches = await _delete(connection, tenant, conversation_id)
        if not branches:
            raise UnknownBranch(f"the tenant has no conversation {conversation_id!r:.80}")
        gone = branches if dry_run else list[UUID]()
        search = Search(pool, contents, tenant, RetentionPolicy(), gone, [])
        taken = [
            *await _take_contents(connection, search, hashes, dry_run=dry_run),
            *await _take_parts(connection, search, parts, dry_run=dry_run),
        ]
    counted = [Taken(kind=each.kind, count=1, bytes=each.bytes) for each in taken]
    conversation = Taken(kind="conversations", count=1, bytes=size)
    return RetentionReport(
        dry_run=dry_run,
        taken=summed([conversation, *counted]),
        conversation_ids=(conversation_id,),
    )


async def _delete(connection: Connection, tenant: str, conversation_id: str) -> list[UUID]:
    async with connection.transaction():
        branches = await lock_conversation(connection, tenant, conversation_id)
        await delete_branches(connection, tenant, branches)
    return branches


async def _take_contents(
    connection: Connection, search: Search, hashes: Sequence[bytes], *, dry_run: bool
) -> list[Found]:
    due = [each for each in await find_contents(connection, search, hashes) if each.due]
    return due if dry_run else _of(due, await UnnamedContents().take(connection, search, due))


async def _take_parts(
    connection: Connection, search: Search, hashes: Sequence[bytes], *, dry_run: bool
) -> list[Found]:
    due = [each for each in await find_prompt_parts(connection, search, hashes) if each.due]
    return due if dry_run else _of(due, await UnnamedPromptParts().take(connection, search, due))


def _of(due: Sequence[Found], gone: Sequence[Any]) -> list[Found]:
    return [each for each in due if each.id in gone]
