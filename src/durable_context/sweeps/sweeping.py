"""A sweep from where it stands to the end, or to the end of its time: page by page, started in
bounded batches, its position told after each.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from uuid import UUID

from durable_context.contracts.sweep import SweepCounts, SweepPosition
from durable_context.sweeps.paging import FIRST, DueBranch, Page, Pages
from durable_context.sweeps.starting import Outcome, Starting

BATCH = 48
"""Branches between two positions: what a killed worker may do again."""
AT_ONCE = 16
ONE_RUN = timedelta(seconds=20)
"""So long one call goes on: short, so that a deployment need not wait for it."""

Tell = Callable[[SweepPosition], None]


async def sweep_branches(
    pages: Pages, start: Starting, position: SweepPosition, tell: Tell, lasts: timedelta = ONE_RUN
) -> SweepPosition:
    """Where it got to. All up to the position that was told last is done."""
    until = time.monotonic() + lasts.total_seconds()
    while True:
        page = await pages.page(UUID(position.after) if position.after else FIRST)
        seen = 0
        for batch in _batches(page):
            outcomes = await start_all(start, batch)
            counts = counted(position.counts, batch[-1].nth - seen, outcomes)
            position = SweepPosition(after=str(batch[-1].branch_uuid), counts=counts)
            seen = batch[-1].nth
            tell(position)
            if time.monotonic() >= until and batch[-1] is not page.due[-1]:
                return position
        counts = counted(position.counts, page.rows - seen, [])
        position = SweepPosition(after=str(page.after), counts=counts, is_done=page.is_last)
        tell(position)
        if page.is_last or time.monotonic() >= until:
            return position


async def start_all(start: Starting, branches: Sequence[DueBranch]) -> list[Outcome]:
    """16 at once."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(branch: DueBranch) -> Outcome:
        async with free:
            return await start(branch)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(branch)) for branch in branches]
    return [task.result() for task in tasks]


def counted(counts: SweepCounts, scanned: int, outcomes: Sequence[Outcome]) -> SweepCounts:
    new = Counter(outcomes)
    added = {name: getattr(counts, name) + count for name, count in new.items()}
    return counts.model_copy(
        update=added | {"scanned": counts.scanned + scanned, "due": counts.due + len(outcomes)}
    )


def _batches(page: Page) -> Iterator[list[DueBranch]]:
    for begin in range(0, len(page.due), BATCH):
        yield page.due[begin : begin + BATCH]
