"""The activity that sweeps. Heartbeats tell its position, and a retry goes on from there."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from temporalio import activity

from activities.errors import as_temporal_errors
from activities.heartbeats import PER_TIMEOUT
from activities.said import of_sweep
from activities.spans import step
from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import SWEEP, SweepPosition, SweepRequest
from durable_context.database import Pool
from durable_context.sweeps.sweep import Sweeping
from durable_context.sweeps.sweeping import ONE_RUN
from durable_context.telemetry import steps
from durable_context.telemetry.spans import say


class SweepActivities:
    """`recipe`: by which the worker's summarizer makes summaries now. `lasts`: of one call."""

    def __init__(
        self,
        pool: Pool,
        recipe: str,
        contents: ContentStore | None = None,
        lasts: timedelta = ONE_RUN,
    ) -> None:
        self._pool = pool
        self._recipe = recipe
        self._contents = contents or ContentStore()
        self._lasts = lasts

    @activity.defn(name=SWEEP)
    async def sweep(self, request: SweepRequest) -> SweepPosition:
        """From the position of the request, or of the attempt before, for a bounded time that ends
        with the sweep's.
        """
        info = activity.info()
        told = [request.position]
        if info.heartbeat_details:
            told = [SweepPosition.model_validate(info.heartbeat_details[0])]
        sweeping = Sweeping(
            self._pool,
            activity.client(),
            info.task_queue,
            recipe=self._recipe,
            contents=self._contents,
            lasts=min(self._lasts, _left(request)),
        )

        def tell(position: SweepPosition) -> None:
            told[0] = position
            activity.heartbeat(position)

        async with _repeated(told, info.heartbeat_timeout):
            with as_temporal_errors(), step(steps.SWEEP, None, {steps.KIND: request.kind}) as span:
                position = await sweeping.run(request, told[0], tell)
                say(span, of_sweep(position.counts))
                return position


def _left(request: SweepRequest) -> timedelta:
    """Of the sweep's time."""
    began = request.started_at or datetime.now(UTC)
    return max(began + request.longest - datetime.now(UTC), timedelta(0))


@asynccontextmanager
async def _repeated(told: list[SweepPosition], timeout: timedelta | None) -> AsyncGenerator[None]:
    """Proof of life while a page takes long, with what was told last."""
    if timeout is None:
        yield
        return

    async def beat(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            activity.heartbeat(told[0])

    task = asyncio.create_task(beat(timeout.total_seconds() / PER_TIMEOUT))
    try:
        yield
    finally:
        task.cancel()
