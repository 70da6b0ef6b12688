"""An upgrade within a budget of tokens: first all candidates are looked at and the best are kept,
then they are started, best first, for as long as the budget lasts.
"""

import heapq
from collections.abc import Iterator, Sequence
from datetime import timedelta

from durable_context.contracts.sweep import SweepCounts, SweepPosition
from durable_context.database import Pool
from durable_context.sweeps.outdated import reads_of
from durable_context.sweeps.paging import FIRST, DueBranch, Pages
from durable_context.sweeps.starting import Starting
from durable_context.sweeps.sweeping import BATCH, Tell, start_all

KEPT = 2_000
"""Candidates that are held in memory: more than a budget lasts for."""
DAY = timedelta(days=1).total_seconds()
WITH_PARENTS = 1.5
"""What stands above nodes that are made anew is made anew, too: so much larger than what the nodes
themselves read is a share of the budget.
"""
LEAST_SHARE = 2_000
"""Of a branch with few such nodes, or one that only follows its ancestors."""


async def sweep_upgrades(
    pool: Pool, pages: Pages, start: Starting, position: SweepPosition, tell: Tell, max_tokens: int
) -> SweepPosition:
    """All in one call. Interrupted, it looks again: what `position` says was allotted is spent, and
    what was started runs, or is no candidate any more.
    """
    newest, due, scanned = await _newest(pages, position, tell)
    best = await _best_first(pool, newest)
    looked = position.counts.model_copy(update={"scanned": scanned})
    position = SweepPosition(counts=looked)
    for begin in range(0, len(best), BATCH):
        left = max_tokens - position.counts.tokens
        batch = list(_with_shares(best[begin : begin + BATCH], left))
        if not batch:
            break
        outcomes = await start_all(start, batch)
        position = SweepPosition(counts=_spent(position.counts, batch, outcomes))
        tell(position)
    begun = _begun(position.counts) - _begun(looked)
    totals = {"due": looked.due + due, "skipped": looked.skipped + due - begun}
    return SweepPosition(counts=position.counts.model_copy(update=totals), is_done=True)


async def _newest(
    pages: Pages, position: SweepPosition, tell: Tell
) -> tuple[list[DueBranch], int, int]:
    """Those used last, how many are due in all, and how many were looked at."""
    after, due, scanned = FIRST, 0, 0
    kept: list[tuple[float, int, DueBranch]] = []
    while True:
        page = await pages.page(after)
        for branch in page.due:
            due += 1
            heapq.heappush(kept, (branch.used_at, due, branch))
            if len(kept) > KEPT:
                heapq.heappop(kept)
        scanned, after = scanned + page.rows, page.after
        tell(position)
        if page.is_last:
            return [branch for _, _, branch in kept], due, scanned


async def _best_first(pool: Pool, branches: list[DueBranch]) -> list[DueBranch]:
    """By the day they were used last, the newest first; of one day the most read first."""
    reads = await reads_of(pool, branches)
    return sorted(
        branches,
        key=lambda one: (one.used_at // DAY, reads[one.branch_uuid], one.used_at),
        reverse=True,
    )


def _with_shares(branches: Sequence[DueBranch], left: int) -> Iterator[DueBranch]:
    """Those there is budget for, `tokens` being the share of each."""
    for branch in branches:
        share = min(max(int(branch.tokens * WITH_PARENTS), LEAST_SHARE), left)
        if share <= 0:
            return
        left -= share
        yield branch._replace(tokens=share)


def _spent(counts: SweepCounts, batch: list[DueBranch], outcomes: Sequence[str]) -> SweepCounts:
    shares = zip(batch, outcomes, strict=True)
    return counts.model_copy(
        update={
            "tokens": counts.tokens
            + sum(branch.tokens for branch, outcome in shares if outcome == "started"),
            **{name: getattr(counts, name) + outcomes.count(name) for name in set(outcomes)},
        }
    )


def _begun(counts: SweepCounts) -> int:
    return counts.started + counts.running + counts.failed
