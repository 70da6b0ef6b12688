"""SIGTERM and SIGINT: the first one asks to finish what was begun, a later one ends the process."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Coroutine
from datetime import timedelta

from worker.errors import WorkerError

CLOSING_SECONDS = 8.0
"""For what is closed after what was begun has had its time, or instead of it."""
SAME_REQUEST = 1.0
"""Seconds. A terminal and a supervisor may both send the signal of one request."""

logger = logging.getLogger(__name__)


class Stopping:
    """`asked` is set by the first signal. After a second one the exit code is 128 and its number;
    what was cut off is done anew, by another worker, once its heartbeats are missed.
    """

    def __init__(self, longest: timedelta) -> None:
        self.asked = asyncio.Event()
        self.is_heeded = False
        """Whether somebody who finishes what was begun waits for `asked`."""
        self._longest = longest
        self._asked_at = 0.0

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

    async def ending(self, work: Coroutine[None, None, None]) -> None:
        """Waits for the work's end. Asked to stop, it is cancelled where nobody heeds that, and
        given up where it takes longer than it may: a server that does not answer any more holds up
        all that waits for it. Raises WorkerError then.
        """
        working = asyncio.create_task(work)
        asked = asyncio.create_task(self.asked.wait())
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not working.done() and not self.is_heeded:
            working.cancel()
        within = CLOSING_SECONDS + self._longest.total_seconds() * self.is_heeded
        await asyncio.wait([working], timeout=within)
        if not working.done():
            raise WorkerError(f"ended after {within:g} s, before all was closed")
        if not working.cancelled():
            await working

    def _signalled(self, number: signal.Signals) -> None:
        if not self.asked.is_set():
            self._asked_at = time.monotonic()
            self.asked.set()
            seconds = self._longest.total_seconds()
            logger.info("stopping: what was begun has %g s; one more signal ends it", seconds)
        elif time.monotonic() - self._asked_at > SAME_REQUEST:
            logger.warning("ended by a second signal, before all was finished")
            logging.shutdown()
            os._exit(128 + number)
