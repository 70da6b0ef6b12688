"""Imports an exported branch as a new root: all of it in one transaction, or nothing."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from tempfile import SpooledTemporaryFile
from typing import Final, cast
from uuid import UUID

import asyncpg

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import BranchConflict, InvalidArgument, InvalidExport
from durable_context.exports import statements as import_statements
from durable_context.exports.checks import Checks
from durable_context.exports.format import ORDER, BranchRecord
from durable_context.exports.lines import Numbered, Received
from durable_context.exports.records import DocumentRecord
from durable_context.exports.statements import INSERTS, POSTING_COLUMNS, postings, values
from durable_context.ids import check_ids
from durable_context.tokens import token_counter

IN_MEMORY: Final = 8_388_608
"""Bytes of a stream that are not yet worth a file."""
RECEIVED: Final = 1_048_576
"""Characters of lines that are written to the file at once."""

# Classes of errors that only values can cause: data, integrity, size, and those of our triggers.
_REFUSALS: Final = ("22", "23", "54", "DC")
# A value that is no tsvector.
_SYNTAX: Final = "42601"

_NO_SUCH_NAME: Final = (
    asyncpg.SyntaxOrAccessError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.DataError,
    asyncpg.FeatureNotSupportedError,
)


async def import_branch(
    pool: Pool,
    tenant: str,
    contents: ContentStore,
    lines: Iterable[str] | AsyncIterable[str],
    conversation_id: str,
    branch_id: str = "main",
) -> None:
    """Nothing is written before the last line has proved the stream whole, and no connection is
    held until then: it waits in memory, or in a temporary file if it is large.

    Raises InvalidExport, BranchConflict, InvalidId, ArtifactStoreUnavailable.
    """
    check_ids(conversation_id=conversation_id, branch_id=branch_id)
    if not isinstance(lines, Iterable | AsyncIterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"lines={lines!r:.80}; they must be an iterable of lines")
    with SpooledTemporaryFile(max_size=IN_MEMORY) as file:
        received = Received(file)
        async for some in _received(lines):
            await asyncio.to_thread(received.add, some)
        await asyncio.to_thread(received.check)
        header = await asyncio.to_thread(received.header)
        async with acquired(pool) as connection:
            try:
                async with connection.transaction():
                    branch_uuid = await _new_branch(
                        connection, tenant, conversation_id, branch_id, header
                    )
                    await _Import(connection, tenant, contents, branch_uuid, header).run(received)
            except asyncpg.PostgresError as error:
                if not _is_refusal(error):
                    raise
                raise InvalidExport(f"the stream is refused: {error!s:.300}") from error


async def _received(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[list[object]]:
    """Lines, some at a time."""
    some: list[object] = []
    size = 0
    async for line in _each(lines):
        some.append(line)
        size += len(line) if isinstance(line, str) else 0
        if size > RECEIVED or len(some) == 1_000:
            yield some
            some, size = [], 0
    yield some


async def _each(lines: Iterable[str] | AsyncIterable[str]) -> AsyncIterator[object]:
    if isinstance(lines, str | bytes):
        raise InvalidExport("lines are to be an iterable of lines; this is text as one piece")
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line


async def _new_branch(
    connection: Connection,
    tenant: str,
    conversation_id: str,
    branch_id: str,
    header: BranchRecord,
) -> UUID:
    try:
        token_counter(header.encoding)
    except ValueError as error:
        raise InvalidExport(f"line 1: encoding: {error!s:.200}") from None
    await _check_text_search(connection, header.text_search)
    branch_uuid = await connection.fetchval(
        import_statements.BRANCH,
        tenant,
        conversation_id,
        branch_id,
        header.encoding,
        header.text_search,
    )
    if branch_uuid is None:
        raise BranchConflict(
            f"conversation {conversation_id!r} already has a branch {branch_id!r}: import it under"
            " another id"
        )
    return cast(UUID, branch_uuid)


async def _check_text_search(connection: Connection, name: str) -> None:
    try:
        known = await connection.fetchval(import_statements.TEXT_SEARCH, name)
    except _NO_SUCH_NAME:
        known = None
    if known is None:
        raise InvalidExport(
            f"line 1: text_search={name!r:.80} is no text search configuration of this database"
        )


class _Import:
    """One import under way."""

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        contents: ContentStore,
        branch_uuid: UUID,
        header: BranchRecord,
    ) -> None:
        self._connection = connection
        self._tenant = tenant
        self._contents = contents
        self._branch = branch_uuid
        self._header = header
        self._checks = Checks(header)

    async def run(self, received: Received) -> None:
        batches = received.batches()
        recorded = False
        while batch := await asyncio.to_thread(next, batches, None):
            whole = self._checks.check(batch)
            kind = batch[0].record.kind
            if kind == "content":
                await self._keep(whole)
                continue
            if not recorded and ORDER.index(kind) > ORDER.index("turn"):
                await self._move_head()
                recorded = True
            await self._insert(batch)
        self._checks.check_end()
        if not recorded:
            await self._move_head()
        await self._set_figures()

    async def _move_head(self) -> None:
        """Once, when all turns are there: what follows is of turns that the branch has."""
        await self._connection.execute(
            import_statements.HEAD,
            self._tenant,
            self._branch,
            self._header.head_turn,
            self._header.head_tokens,
            self._header.open_run_turn,
            self._header.last_turn_at,
        )

    async def _set_figures(self) -> None:
        await self._connection.execute(
            import_statements.FIGURES,
            self._tenant,
            self._branch,
            self._header.checkpoint_turn,
            self._header.checkpoint_tokens,
            self._header.counts.artifacts,
        )

    async def _keep(self, contents: list[bytes]) -> None:
        kept = await self._contents.keep(self._tenant, contents)
        await self._connection.execute(import_statements.KEEP_CONTENTS, self._tenant, *kept)

    async def _insert(self, batch: list[Numbered]) -> None:
        """At once, or if they are refused one by one, to name the line."""
        try:
            async with self._connection.transaction():
                await self._write(batch)
        except asyncpg.PostgresError as error:
            if not _is_refusal(error):
                raise
            if len(batch) == 1:
                raise InvalidExport(f"line {batch[0].line}: {error!s:.300}") from error
            for one in batch:
                await self._insert([one])

    async def _write(self, batch: list[Numbered]) -> None:
        records = [one.record for one in batch]
        insert = INSERTS[records[0].kind]
        rows = [values(self._tenant, self._branch, record, insert) for record in records]
        await self._connection.executemany(insert.statement, rows)
        documents = [record for record in records if isinstance(record, DocumentRecord)]
        if documents:
            await self._connection.copy_records_to_table(
                "postings",
                schema_name="durable_context",
                columns=POSTING_COLUMNS,
                records=[row for one in documents for row in postings(self._branch, one)],
            )
        # Deferred triggers run now, so that what they refuse is told of here and the commit is
        # short.
        await self._connection.execute("set constraints all immediate")
        await self._connection.execute("set constraints all deferred")


def _is_refusal(error: asyncpg.PostgresError) -> bool:
    code = error.sqlstate or ""
    return code.startswith(_REFUSALS) or code == _SYNTAX
