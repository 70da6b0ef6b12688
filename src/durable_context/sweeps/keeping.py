"""Retention of all tenants, one after another, and verification of all that is stored: page by
page, each from the place where the one before ended.
"""

import json
import time
from collections.abc import Mapping
from datetime import timedelta

from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import SweepCounts, SweepPosition
from durable_context.database import Pool, acquired
from durable_context.retention import running as retention
from durable_context.sweeps.sweeping import Tell
from durable_context.verification import sweep as verification

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
        page = await retention.run_page(pool, contents, name, cursor)
        found = {taken.kind: taken.count for taken in page.report.taken}
        counts = _with(position.counts, page.report.examined, found)
        cursor = page.cursor
        if cursor is None:
            name = None if tenant else await _tenant_after(pool, name)
        after = json.dumps([name, cursor]) if name else ""
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


def _place(after: str) -> tuple[str | None, str | None]:
    """The tenant, and where in what it has."""
    if not after:
        return None, None
    name, cursor = json.loads(after)
    return name, cursor


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
