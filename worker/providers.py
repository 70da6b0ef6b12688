"""OpenTelemetry's SDK as the worker uses it. Imported only where the extra `telemetry` is there."""

import logging
import os
import time
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import CollectorRegistry, generate_latest

from worker.telemetry_settings import TelemetrySettings

REPEATED_AFTER = 600.0
"""Seconds for which one complaint of OpenTelemetry's is enough."""


class Providers:
    """Made once in a process: whoever has a tracer or a meter already goes over to these."""

    def __init__(self, settings: TelemetrySettings, service_name: str) -> None:
        resource = _resource(service_name)
        self._registry = CollectorRegistry()
        readers: list[MetricReader] = [PrometheusMetricReader(registry=self._registry)]
        if settings.metrics:
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        self._meters = MeterProvider(readers, resource, shutdown_on_exit=False)
        metrics.set_meter_provider(self._meters)
        self._tracers: TracerProvider | None = None
        if settings.traces:
            self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(self._tracers)
        for handler in logging.getLogger().handlers:
            handler.addFilter(SeldomComplaints())

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def end(self, seconds: float) -> None:
        """Sends what is left. Whoever cannot wait so long need not."""
        if self._tracers is not None:
            self._tracers.shutdown()
        self._meters.shutdown(seconds * 1000)


class SeldomComplaints(logging.Filter):
    """A collector that is away is worth a line now and then, not one for each batch."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("opentelemetry"):
            return True
        now = time.monotonic()
        last = self._said.get(record.name)
        if last is not None and now - last < REPEATED_AFTER:
            return False
        self._said[record.name] = now
        record.exc_info = None  # where it went wrong is known, and says nothing
        return True


def _resource(service_name: str) -> Resource:
    """What the environment says of this process goes before what we do."""
    named = Resource.create()
    known = {"service.name": service_name, "service.version": _version()}
    said = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in said:
        del known["service.name"]
    return named.merge(Resource(known))


def _version() -> str:
    try:
        return version("durable-context")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
