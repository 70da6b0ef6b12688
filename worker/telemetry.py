"""Where spans and metrics of the worker go: over OTLP to whom OpenTelemetry's own variables name,
and to whoever reads the worker's `/metrics`. Without the extra `telemetry` they go nowhere.
"""

import asyncio
import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Self

from durable_context.compaction.counting import count_nothing
from worker.errors import InvalidSettings
from worker.telemetry_settings import TelemetrySettings, is_installed

if TYPE_CHECKING:
    from worker.providers import Providers

logger = logging.getLogger(__name__)

SERVICE_NAME = "durable-context-worker"
FLUSH_SECONDS = 5.0
"""A collector that does not answer holds up the end of the worker no longer."""


class Telemetry:
    """`async with`: sets the process's providers, and ends by sending what is left, in bounded
    time. `is_scraped`: there is somewhere to serve `/metrics`.
    """

    def __init__(self, settings: TelemetrySettings, *, is_scraped: bool) -> None:
        self._settings = settings
        self._has_metrics = is_scraped or settings.metrics
        self._providers: Providers | None = None

    async def __aenter__(self) -> Self:
        is_wanted = self._has_metrics or self._settings.traces
        if is_wanted and not self._settings.disabled and is_installed():
            # Importing takes a moment, which must not hold up the loop.
            self._providers = await asyncio.to_thread(_providers, self._settings)
            count_nothing()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        providers, self._providers = self._providers, None
        if providers is not None and not await _ended(providers):
            logger.warning("telemetry that was left is lost: no answer in %g s", FLUSH_SECONDS)

    @property
    def is_measured(self) -> bool:
        """Whether anybody gets to see metrics."""
        return self._providers is not None and self._has_metrics

    @property
    def missing(self) -> str | None:
        """Why there is no page of metrics."""
        if self._settings.disabled:
            return "OTEL_SDK_DISABLED says that there are no metrics"
        if not is_installed():
            return "metrics need the extra: pip install durable-context[telemetry]"
        return None

    def page(self) -> bytes:
        """All metrics of the process in Prometheus' text format."""
        assert self._providers is not None
        return self._providers.page()


def _providers(settings: TelemetrySettings) -> "Providers":
    from worker.providers import Providers  # only with the extra

    try:
        return Providers(settings, SERVICE_NAME)
    except ValueError as error:  # of a variable that an exporter reads
        raise InvalidSettings(f"an OTEL_… variable cannot be used: {error}") from error


async def _ended(providers: "Providers") -> bool:
    """Whether all was sent in time. In a thread that nobody waits for, unlike asyncio's own."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        providers.end(FLUSH_SECONDS)
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=end, name="telemetry-end", daemon=True).start()
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await ended.wait()
    except TimeoutError:
        return False
    return True
