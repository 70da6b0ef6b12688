"""Where spans and metrics of the worker go: over OTLP to whom OpenTelemetry's own variables name,
and to whoever reads the worker's `/metrics`. Without the extra `telemetry` they go nowhere.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from durable_context.compaction.counting import count_nothing
from durable_context.models import Value
from worker.errors import InvalidSettings

if TYPE_CHECKING:
    from worker.providers import Providers

logger = logging.getLogger(__name__)

SERVICE_NAME = "durable-context-worker"
PACKAGES = (
    "opentelemetry.sdk",
    "opentelemetry.exporter.prometheus",
    "opentelemetry.exporter.otlp.proto.http",
)
EXPORTERS = ("otlp", "none")
PROTOCOL = "http/protobuf"
FLUSH_SECONDS = 5.0
"""A collector that does not answer holds up the end of the worker no longer."""


class TelemetrySettings(Value):
    """`traces` and `metrics`: whether they are sent over OTLP, where and how the exporters read
    from the environment themselves.
    """

    disabled: bool = False
    traces: bool = False
    metrics: bool = False

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Raises InvalidSettings."""
        if (environ.get("OTEL_SDK_DISABLED") or "").strip().lower() == "true":
            return cls(disabled=True)
        settings = cls(traces=_is_sent(environ, "TRACES"), metrics=_is_sent(environ, "METRICS"))
        if (settings.traces or settings.metrics) and not is_installed():
            raise InvalidSettings(
                "OTLP is asked for, which needs the extra: pip install durable-context[telemetry]"
            )
        return settings


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


def of_a_child(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a worker that another service's program starts. What that says of its
    own telemetry holds for the worker, too, as far as the worker can do the same.
    """
    rest = {name: value for name, value in environ.items() if name != "OTEL_SERVICE_NAME"}
    try:
        TelemetrySettings.from_env(rest)
    except InvalidSettings:
        rest |= {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}
    return rest


def is_installed() -> bool:
    """Whether the extra is."""
    try:
        return all(find_spec(name) is not None for name in PACKAGES)
    except ModuleNotFoundError:  # not even what contains it
        return False


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


def _is_sent(environ: Mapping[str, str], signal: str) -> bool:
    """Where no exporter is named, it is if there is an endpoint for it."""
    name = f"OTEL_{signal}_EXPORTER"
    exporter = (environ.get(name) or "").strip()
    if exporter == "none":
        return False
    endpoint = _endpoint(environ, signal)
    exporter = exporter or ("otlp" if endpoint else "none")
    if exporter not in EXPORTERS:
        raise InvalidSettings(
            f"{name}={exporter!r:.80} must be {' or '.join(EXPORTERS)};"
            " Prometheus reads /metrics at DURABLE_CONTEXT_HEALTH_ADDRESS"
        )
    if exporter == "otlp":
        _check_protocol(environ, signal)
    return exporter == "otlp"


def _endpoint(environ: Mapping[str, str], signal: str) -> str | None:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if text := (environ.get(name) or "").strip():
            if not _is_http(text):
                raise InvalidSettings(
                    f"{name}={text!r:.80} must be an address such as http://localhost:4318"
                )
            return text
    return None


def _is_http(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _check_protocol(environ: Mapping[str, str], signal: str) -> None:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if text := (environ.get(name) or "").strip():
            if text != PROTOCOL:
                raise InvalidSettings(f"{name}={text!r:.80} must be {PROTOCOL}")
            return
