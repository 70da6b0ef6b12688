"""Proof of life while an activity waits for somebody else."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

PER_TIMEOUT = 3


@asynccontextmanager
async def heartbeats(timeout: timedelta | None) -> AsyncGenerator[None]:
    """Heartbeat in the background. It proves that the worker lives, not that the work goes on."""
    if timeout is None:
        yield
        return
    task = asyncio.create_task(_beat(timeout.total_seconds() / PER_TIMEOUT))
    try:
        yield
    finally:
        task.cancel()


async def _beat(seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        activity.heartbeat()
