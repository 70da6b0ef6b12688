"""What OpenTelemetry's own variables say of the worker's telemetry."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Self
from urllib.parse import urlsplit

from durable_context.models import Value
from worker.errors import InvalidSettings

PACKAGES = (
    "opentelemetry.sdk",
    "opentelemetry.exporter.prometheus",
    "opentelemetry.exporter.otlp.proto.http",
)
EXPORTERS = ("otlp", "none")
PROTOCOL = "http/protobuf"


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
