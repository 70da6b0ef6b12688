"""Waits until nothing of a branch is due for compaction."""

import asyncio
import time
from datetime import timedelta
from typing import Final

from durable_context.compaction.lag import next_segment
from durable_context.compaction.store import CompactionStore
from durable_context.errors import CompactionPaused, CompactionTimeout
from durable_context.policy import CompactionPolicy

POLL_FIRST: Final = 0.02
POLL_LONGEST: Final = 0.5


async def wait_until_compacted(
    store: CompactionStore, policy: CompactionPolicy, timeout: timedelta, name: str
) -> None:
    """Raises CompactionTimeout and CompactionPaused, which call the branch by `name`."""
    bound = timeout.total_seconds()
    deadline = time.monotonic() + bound
    pause = POLL_FIRST
    while due := await next_segment(store, head := await store.head(), policy):
        if head.is_paused:
            raise CompactionPaused(f"{name}, or its tenant, is paused: nothing is compacted")
        left = deadline - time.monotonic()
        if left <= 0:
            raise CompactionTimeout(
                f"turns {due[0].turn_no}-{due[-1].turn_no} of {name} are not compacted after"
                f" {bound:g} s"
            )
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, POLL_LONGEST)
