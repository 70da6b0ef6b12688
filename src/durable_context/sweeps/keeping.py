"""Retention of all tenants, one after another, and verification of all that is stored: page by
page, each from the place where the one before ended.
"""

import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import timedelta

from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import SweepCounts, SweepPosition
from durable_context.database import Pool, acquired, answers
from durable_context.retention import running as retention
from durable_context.retention.report import RetentionPage, RetentionReport
from durable_context.sweeps.sweeping import Tell
from durable_context.verification import sweep as verification

logger = logging.getLogger(__name__)

BRANCHES = 5
"""Verified between two positions."""

# The next by name, of those that have anything at all: a look into three indexes.
_NEXT_TENANT = """
select min(tenant) from (
    (select tenant from durable_context.branches where tenant > $1 order by tenant limit 1)
    union all
    (select tenant from durable_context.artifact_contents where tenant > $1 order by tenant limit 1)
    union all
    (select tenant from durable_context.tenants where tenant > $1 order by tenant limit 1)
) next
"""


async def sweep_retention(
    pool: Pool,
    contents: ContentStore,
    tenant: str | None,
    position: SweepPosition,
    tell: Tell,
    lasts: timedelta,
) -> SweepPosition:
    """`found` counts what was taken, by kind."""
    until = time.monotonic() + lasts.total_seconds()
    name, cursor = _place(position.after)
    while name or (name := tenant or await _tenant_after(pool, "")):
        page = await _retained(pool, contents, name, cursor)
        found = {taken.kind: taken.count for taken in page.report.taken}
        counts = _with(position.counts, page.report.examined, found, page.failed)
        cursor = page.cursor
        if cursor is None:
            name = None if tenant else await _tenant_after(pool, name)
        after = _after(name, cursor) if name else ""
        position = SweepPosition(after=after, counts=counts, is_done=not name)
        tell(position)
        if not name or time.monotonic() >= until:
            return position
    return SweepPosition(counts=position.counts, is_done=True)


async def sweep_verification(
    pool: Pool,
    contents: ContentStore,
    tenant: str | None,
    position: SweepPosition,
    tell: Tell,
    lasts: timedelta,
) -> SweepPosition:
    """`found` counts what was looked at, what is wrong with it (`found`, of which `errors` are
    damage), and what of that was not known before (`told`).
    """
    until = time.monotonic() + lasts.total_seconds()
    while True:
        page = await verification.run_page(
            *(pool, contents, tenant, position.after, BRANCHES),
            # In its own place: a page that is interrupted is verified again.
            alive=lambda reached=position: tell(reached),
        )
        found = {
            "turns": page.turns,
            "contents": page.contents,
            "found": page.found,
            "errors": page.errors,
            "told": page.told,
        }
        counts = _with(position.counts, page.branches + page.failed, found, page.failed)
        position = SweepPosition(
            after=page.cursor or "", counts=counts, is_done=page.cursor is None
        )
        tell(position)
        if position.is_done or time.monotonic() >= until:
            return position


async def _retained(
    pool: Pool, contents: ContentStore, tenant: str, cursor: str | None
) -> RetentionPage:
    """A tenant whose retention cannot be read fails alone."""
    try:
        return await retention.run_page(pool, contents, tenant, cursor, survives=True)
    except Exception as error:
        await answers(pool)
        logger.warning("retention of a tenant failed: %s", type(error).__name__)
        return RetentionPage(report=RetentionReport(), failed=1)


def _after(tenant: str, cursor: str | None) -> str:
    """In characters that JSON does not escape, whatever the tenant is called: it is in payloads."""
    return f"{b64encode(tenant.encode()).decode()} {cursor or ''}"


def _place(after: str) -> tuple[str | None, str | None]:
    """The tenant, and where in what it has."""
    name, _, cursor = after.partition(" ")
    return b64decode(name).decode() or None, cursor or None


def _with(
    counts: SweepCounts, scanned: int, found: Mapping[str, int], failed: int = 0
) -> SweepCounts:
    totals = {name: counts.found.get(name, 0) + count for name, count in found.items()}
    return counts.model_copy(
        update={
            "scanned": counts.scanned + scanned,
            "failed": counts.failed + failed,
            "found": {**counts.found, **totals},
        }
    )


async def _tenant_after(pool: Pool, tenant: str) -> str | None:
    async with acquired(pool) as connection:
        return await connection.fetchval(_NEXT_TENANT, tenant)
