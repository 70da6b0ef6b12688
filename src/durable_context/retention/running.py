"""Retention of one tenant, a bounded batch at a time, by key: it goes on where it was stopped, and
several at once do no harm.
"""

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, cast
from uuid import UUID

import asyncpg

from durable_context.artifacts.contents import ContentStore
from durable_context.database import Connection, Pool, acquired, answers
from durable_context.errors import InvalidArgument
from durable_context.retention.checkpoints import OldCheckpoints, RetiredCheckpoints
from durable_context.retention.contents import UnnamedContents, UnnamedPromptParts
from durable_context.retention.conversations import UnusedConversations, branches_of_conversation
from durable_context.retention.objects import UnnamedObjects
from durable_context.retention.pages import Found, Rows, Search
from durable_context.retention.report import (
    NAMED,
    RetentionPage,
    RetentionReport,
    Taken,
    summed,
)
from durable_context.retention.settings import retention_policy
from durable_context.retention.summaries import RetiredSummaries
from durable_context.retention.work_rows import OldCompactions, OldSummaryParts

logger = logging.getLogger(__name__)

# What frees others goes first.
ORDER: Final[tuple[Rows, ...]] = (
    UnusedConversations(),
    RetiredCheckpoints(),
    OldCheckpoints(),
    RetiredSummaries(),
    OldSummaryParts(),
    OldCompactions(),
    UnnamedContents(),
    UnnamedPromptParts(),
    UnnamedObjects(),
)

Told = Callable[[RetentionReport], None]


async def run_page(
    pool: Pool,
    contents: ContentStore,
    tenant: str,
    cursor: str | None = None,
    *,
    survives: bool = False,
) -> RetentionPage:
    """Take one batch (up to 500 rows, or 50 conversations), and say where the next begins.

    None begins anew. Each page goes by the policy that the tenant has by then. A cursor stays good
    across restarts: what a lost page took is gone, and the same cursor goes on behind it. With
    `survives` rows that cannot be taken or read are counted and passed over. Raises
    InvalidArgument for what is no cursor, DatabaseUnavailable, ArtifactStoreUnavailable.
    """
    return await Retention(pool, contents, tenant, survives=survives).page(cursor)


class Retention:
    """One run, from its first page to its last. A dry run reads only, and remembers what would be
    gone, so that it says what a run would take that begins now.
    """

    def __init__(
        self,
        pool: Pool,
        contents: ContentStore,
        tenant: str,
        *,
        dry_run: bool = False,
        survives: bool = False,
    ) -> None:
        self._pool = pool
        self._contents = contents
        self._tenant = tenant
        self._dry_run = dry_run
        self._survives = survives
        self._failed = 0
        self._gone: tuple[list[UUID], list[UUID]] = ([], [])

    async def run(self, told: Told | None = None) -> RetentionReport:
        """All pages. `told` is given what is done so far, after each."""
        report, cursor = RetentionReport(dry_run=self._dry_run), None
        while True:
            page = await self.page(cursor)
            report, cursor = report + page.report, page.cursor
            if told is not None:
                told(report)
            if cursor is None:
                return report

    async def page(self, cursor: str | None) -> RetentionPage:
        """As `run_page`."""
        nth, after = _position(cursor)
        search = Search(
            self._pool,
            self._contents,
            self._tenant,
            await retention_policy(self._pool, self._tenant),
            *self._gone,
        )
        while nth < len(ORDER):
            rows = ORDER[nth]
            try:
                found, taken = await self._batch(rows, search, after or rows.first)
            except Exception as error:
                if not self._survives:
                    if isinstance(error, asyncpg.DataError):
                        raise _no_cursor(cursor) from error
                    raise
                await self._note(rows.name, error)
                found, taken = [], []
            if found:
                next_cursor = json.dumps([rows.name, *found[-1].key])
                report = self._report(found, taken)
                return RetentionPage(report=report, cursor=next_cursor, failed=self._failed)
            nth, after = nth + 1, ()
        return RetentionPage(report=RetentionReport(dry_run=self._dry_run), failed=self._failed)

    async def _batch(
        self, rows: Rows, search: Search, after: tuple[str, ...]
    ) -> tuple[list[Found], list[Found]]:
        """What was looked at, and of it what was taken."""
        async with acquired(self._pool) as connection:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                found = await rows.find(connection, search, after)
                due = [each for each in found if each.due]
                if self._dry_run:
                    await self._remember(connection, due)
            if due and not self._dry_run:
                gone = set(await self._take(rows, connection, search, due))
                due = [each for each in due if each.id in gone]
        return found, due

    async def _take(
        self, rows: Rows, connection: Connection, search: Search, due: Sequence[Found]
    ) -> Sequence[Any]:
        try:
            return await rows.take(connection, search, due)
        except Exception as error:
            if not self._survives:
                raise
            if len(due) == 1:
                await self._note(rows.name, error)
                return []
        return [one for each in due for one in await self._take(rows, connection, search, [each])]

    async def _note(self, name: str, error: Exception) -> None:
        await answers(self._pool)
        logger.warning("retention passes over %s: %s", name, type(error).__name__)
        self._failed += 1

    async def _remember(self, connection: Connection, due: Sequence[Found]) -> None:
        branches, checkpoints = self._gone
        for each in due:
            if each.kind == "conversations":
                branches += await branches_of_conversation(connection, self._tenant, each.id)
            elif each.kind == "checkpoints":
                checkpoints.append(each.id)

    def _report(self, found: Sequence[Found], taken: Sequence[Found]) -> RetentionReport:
        names = [each.id for each in taken if each.kind == "conversations"]
        counted = (Taken(kind=each.kind, count=1, bytes=each.bytes) for each in taken)
        return RetentionReport(
            dry_run=self._dry_run,
            taken=summed(counted),
            examined=len(found),
            conversation_ids=tuple(names[:NAMED]),
        )


def _position(cursor: str | None) -> tuple[int, tuple[str, ...]]:
    """Which rows, and behind which key. Raises InvalidArgument."""
    if cursor is None:
        return 0, ()
    try:
        name, *key = cast(list[str], json.loads(cursor))
        nth = [rows.name for rows in ORDER].index(name)
    except (ValueError, TypeError):
        nth, key = -1, []
    if nth < 0 or len(key) != len(ORDER[nth].first) or set(map(type, key)) - {str}:
        raise _no_cursor(cursor)
    return nth, tuple(key)


def _no_cursor(cursor: str | None) -> InvalidArgument:
    return InvalidArgument(f"cursor={cursor!r:.80} is none that a page of retention returned")
