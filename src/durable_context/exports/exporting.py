"""Exports a branch as lines of JSON: one snapshot, and memory for one page of it at a time."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.artifacts.contents import ContentStore, StoredContent
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import UnknownBranch
from durable_context.exports import query as export_query
from durable_context.exports.format import FORMAT, VERSION
from durable_context.exports.lines import LineWriter
from durable_context.ids import check_ids

PAGE_ROWS: Final = 100
PAGE_BYTES: Final = 1_048_576
CONTENT_PIECE: Final = 786_432
"""Bytes of a content on one line, which in base64 are a third more."""
SORT_SECONDS: Final = 3_600.0
"""Bound on reading a page: the first page of the documents waits for the sort of all postings."""

_JSON_COLUMNS: Final = {
    "lineage",
    "messages",
    "views",
    "ledger",
    "usage",
    "metadata",
    "manifest",
    "sections",
    "token_usage",
    "postings",
}


class _Export(NamedTuple):
    """One export under way."""

    connection: Connection
    contents: ContentStore
    tenant: str
    branch_uuid: UUID
    writer: LineWriter


async def export_branch(
    pool: Pool, tenant: str, contents: ContentStore, conversation_id: str, branch_id: str = "main"
) -> AsyncIterator[str]:
    """Lines of JSON, each with its end. A child is exported as it sees itself.

    A connection is held until the last line. Raises UnknownBranch, InvalidId, ArtifactDamaged,
    ArtifactStoreUnavailable.
    """
    check_ids(conversation_id=conversation_id, branch_id=branch_id)
    async with (
        acquired(pool) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        branch_uuid = await connection.fetchval(
            "select branch_uuid from durable_context.branches"
            " where tenant = $1 and conversation_id = $2 and branch_id = $3",
            tenant,
            conversation_id,
            branch_id,
        )
        if branch_uuid is None:
            raise UnknownBranch(
                f"tenant {tenant!r} has no branch {branch_id!r} of conversation {conversation_id!r}"
            )
        export = _Export(connection, contents, tenant, branch_uuid, LineWriter())
        async for line in _lines(export):
            yield line


async def _lines(export: _Export) -> AsyncIterator[str]:
    for line in export.writer.lines(await _header(export)):
        yield line
    async for line in _content_lines(export):
        yield line
    async for line in _record_lines(export, "prompt_parts", export_query.PROMPT_PARTS):
        yield line
    async for line in _turn_lines(export):
        yield line
    for kind, statement in (
        ("artifact", export_query.ARTIFACTS),
        ("artifact_summary", export_query.ARTIFACT_SUMMARIES),
        ("summary", export_query.SUMMARIES),
        ("checkpoint", export_query.CHECKPOINTS),
        ("document", export_query.DOCUMENTS),
        ("compaction", export_query.COMPACTIONS),
        ("pin", export_query.PINS),
    ):
        async for line in _record_lines(export, kind, statement):
            yield line
    yield export.writer.end()


async def _header(export: _Export) -> dict[str, Any]:
    of_branch = (export.tenant, export.branch_uuid)
    branch = await export.connection.fetchrow(export_query.BRANCH, *of_branch)
    counts = await export.connection.fetchrow(export_query.COUNTS, *of_branch, timeout=SORT_SECONDS)
    assert branch is not None
    assert counts is not None
    what = {"kind": "branch", "format": FORMAT, "version": VERSION}
    return what | _fields(branch) | {"counts": dict(counts)}


async def _content_lines(export: _Export) -> AsyncIterator[str]:
    rows = _rows(export, export_query.CONTENT_SIZES)
    async for hashes in _pages(rows):
        found = await export.connection.fetch(export_query.CONTENTS, export.tenant, hashes)
        for row in found:
            content = await export.contents.load(export.tenant, StoredContent(*row))
            for record in _content_records(row["sha256"], content):
                for line in export.writer.lines(record):
                    yield line


def _content_records(sha256: bytes, content: bytes) -> Iterator[dict[str, Any]]:
    for offset in range(0, len(content) or 1, CONTENT_PIECE):
        data = content[offset : offset + CONTENT_PIECE]
        yield {
            "kind": "content",
            "sha256": sha256.hex(),
            "size": len(content),
            "offset": offset,
            "data": base64.b64encode(data).decode(),
        }


async def _turn_lines(export: _Export) -> AsyncIterator[str]:
    async for numbers in _pages(_rows(export, export_query.TURN_SIZES)):
        rows = await export.connection.fetch(
            export_query.TURNS, export.tenant, export.branch_uuid, numbers[0], numbers[-1]
        )
        for line in await asyncio.to_thread(_made, export.writer, "turn", rows):
            yield line


async def _record_lines(export: _Export, kind: str, statement: str) -> AsyncIterator[str]:
    async for row in _rows(export, statement):
        for line in _made(export.writer, kind, [row]):
            yield line


async def _rows(export: _Export, statement: str) -> AsyncIterator[asyncpg.Record]:
    """The rows of a statement, a page of them in memory."""
    cursor = export.connection.cursor(
        statement, export.tenant, export.branch_uuid, prefetch=PAGE_ROWS, timeout=SORT_SECONDS
    )
    async for row in cursor:
        yield row


async def _pages(sizes: AsyncIterator[asyncpg.Record]) -> AsyncIterator[list[Any]]:
    """Keys, from rows of key and size, in pages of about PAGE_BYTES."""
    page: list[Any] = []
    total = 0
    async for key, size in sizes:
        if page and (total + size > PAGE_BYTES or len(page) == PAGE_ROWS):
            yield page
            page, total = [], 0
        page.append(key)
        total += size
    if page:
        yield page


def _made(writer: LineWriter, kind: str, rows: Iterable[asyncpg.Record]) -> list[str]:
    return [line for row in rows for line in writer.lines({"kind": kind} | _fields(row))]


def _fields(row: asyncpg.Record) -> dict[str, Any]:
    """What a row has, as JSON says it. What is null is left out."""
    fields = _shown(row)
    if "of_sections" in fields:
        names = dict(zip(fields.pop("of_sections"), fields["frontier"], strict=True))
        fields["sections"] = [
            part | {"id": names[part["id"]]} if "id" in part else part
            for part in fields["sections"]
        ]
    return fields


def _shown(row: asyncpg.Record) -> dict[str, Any]:
    return {
        name: stored_json.loads(value) if name in _JSON_COLUMNS else _plain(value)
        for name, value in row.items()
        if value is not None
    }


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in cast(list[object], value)]
    return value
