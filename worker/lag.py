"""Measures in the background how far compaction is behind, for the gauges of it."""

import asyncio
import logging
from types import TracebackType
from typing import Self

from durable_context.compaction.total_lag import STATEMENT_SECONDS, TotalLag, total_lag
from durable_context.database import Pool
from durable_context.policy import CompactionPolicy
from durable_context.telemetry.instruments import observe_lag

logger = logging.getLogger(__name__)


class LagGauges:
    """`async with`: measures now and every `seconds`; never where these are 0. What cannot be
    measured is no figure, neither an old one nor 0.
    """

    def __init__(self, pool: Pool, policy: CompactionPolicy, seconds: float) -> None:
        self._pool = pool
        self._policy = policy
        self._seconds = seconds
        self._measuring: asyncio.Task[None] | None = None
        self._is_failing = False
        self.lag: TotalLag | None = None

    async def __aenter__(self) -> Self:
        if self._seconds > 0:
            observe_lag(lambda: self.lag)
            self._measuring = asyncio.create_task(self._measure_on())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.lag = None
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring], timeout=1)  # a driver may be slow to let go

    async def _measure_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # The server's own bound is not heard of when it does not answer at all.
            late = loop.call_later(STATEMENT_SECONDS, self._failed, TimeoutError())
            try:
                await self.measure()
            finally:
                late.cancel()
            await asyncio.sleep(self._seconds)

    async def measure(self) -> None:
        """Once. A failure is logged when it is the first one in a row."""
        try:
            self.lag = await total_lag(self._pool, self._policy)
            self._is_failing = False
        except Exception as error:  # whatever is away now may be there the next time
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.lag = None
        if not self._is_failing:
            # Only its kind: a driver's message may hold addresses and names.
            logger.warning("the lag is not measured: %s", type(error).__name__)
        self._is_failing = True
