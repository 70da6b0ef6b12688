"""SIGTERM and SIGINT: the first one asks to finish what was begun, a later one ends the process."""

import asyncio
import logging
import os
import signal
import time
from datetime import timedelta

SAME_REQUEST = 1.0
"""Seconds. A terminal and a supervisor may both send the signal of one request."""

logger = logging.getLogger(__name__)


class Stopping:
    """`asked` is set by the first signal. After a second one the exit code is 128 and its number;
    what was cut off is done anew, by another worker, once its heartbeats are missed.
    """

    def __init__(self, longest: timedelta) -> None:
        self.asked = asyncio.Event()
        self._longest = longest
        self._asked_at = 0.0

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)

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
