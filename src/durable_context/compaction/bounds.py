"""A bound on waiting that holds whatever the awaited work does about being cancelled."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

from durable_context.errors import CompactionTimeout

T = TypeVar("T")


async def bounded(work: Awaitable[T], timeout: timedelta) -> T:
    """The result within `timeout`, or CompactionTimeout.

    Temporal's SDK turns a cancelled update into an error of its own, which would pass a bound by
    unseen, and a thread that imports it cannot be cancelled: the work is left to end by itself.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=timeout.total_seconds())
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(retrieve)
    if not task.done():
        raise CompactionTimeout(
            f"the compaction did not finish within {timeout.total_seconds():g} s; where Temporal"
            " could be asked, it goes on"
        )
    return task.result()


def retrieve(task: "asyncio.Future[T]") -> None:
    """Look at how it ended, so that nobody complains that no one did."""
    if not task.cancelled():
        task.exception()
