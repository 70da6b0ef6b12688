"""When to leave an embedder alone, so that one that is down holds up no compaction."""

import time
from typing import Final

from durable_context.errors import EmbedderError, EmbedderRejected, EmbedderUnavailable

FAILURES: Final = 4
"""In a row: as many as one activity is tried."""
PAUSE: Final = 300.0
LONGEST_PAUSE: Final = 3_600.0
"""Seconds."""


class Pause:
    """Of one process. Failures count in a row, whichever branch they were met in."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self._until

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, error: EmbedderError) -> float | None:
        """How long the pause is that begins with this failure, in seconds; None if none does: if
        another try, or another text, may do.
        """
        self._failures += 1
        lasting = isinstance(error, EmbedderRejected) and not error.of_input
        if not lasting and self._failures < FAILURES:
            return None
        asked_for = error.retry_after if isinstance(error, EmbedderUnavailable) else None
        seconds = min(max(PAUSE, asked_for or 0), LONGEST_PAUSE)
        self._until = time.monotonic() + seconds
        self._failures = 0
        return seconds
