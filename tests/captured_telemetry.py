"""What a test's process would have sent to a collector: spans and metrics, kept in memory.

The providers are the process's own and can be set once, so that all tests share them. They keep
spans only while a test listens.
"""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

PATIENCE = 60
DELTA = AggregationTemporality.DELTA
SINCE_LAST_READ = dict.fromkeys((Counter, Histogram, ObservableCounter, UpDownCounter), DELTA)


class _WhileListening(Sampler):
    def __init__(self) -> None:
        self.listening = False

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: trace.SpanKind | None = None,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[trace.Link] | None = None,
        trace_state: trace.TraceState | None = None,
    ) -> SamplingResult:
        if not self.listening:
            return SamplingResult(Decision.DROP)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)

    def get_description(self) -> str:
        return "while a test listens"


class _Ends(SpanProcessor):
    """Wakes who waits for a span to end, in whatever thread it does."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.seen = asyncio.Event()

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.seen.clear()

    def on_end(self, span: ReadableSpan) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.seen.set)


class CapturedTelemetry:
    """Made once a process. `spans` and the metrics are those since `listening` began."""

    def __init__(self) -> None:
        self._sampler = _WhileListening()
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader(preferred_temporality=SINCE_LAST_READ)  # type: ignore[arg-type]
        self._points: dict[str, list[Any]] = {}
        provider = TracerProvider(sampler=self._sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._ends = _Ends()
        provider.add_span_processor(self._ends)
        trace.set_tracer_provider(provider)
        meters = MeterProvider([self._reader], shutdown_on_exit=False)
        metrics.set_meter_provider(meters)

    @contextmanager
    def listening(self) -> Generator["CapturedTelemetry"]:
        self.clear()
        self._sampler.listening = True
        try:
            yield self
        finally:
            self._sampler.listening = False

    def clear(self) -> None:
        """Forget what was seen so far."""
        self._read()
        self._points.clear()
        self._exporter.clear()

    def spans(self, name: str | None = None) -> tuple[ReadableSpan, ...]:
        """Those that have ended, in the order of their ends."""
        ended = self._exporter.get_finished_spans()
        return tuple(span for span in ended if name is None or span.name == name)

    def span(self, name: str) -> ReadableSpan:
        """The only one of this name."""
        (span,) = self.spans(name)
        return span

    async def ended(self, name: str, count: int = 1) -> tuple[ReadableSpan, ...]:
        """As `spans`, once there are so many, for which it waits a minute."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._ends.begin()
                if len(spans := self.spans(name)) >= count:
                    return spans
                await self._ends.seen.wait()

    def children(self, parent: ReadableSpan) -> tuple[ReadableSpan, ...]:
        return tuple(span for span in self.spans() if is_child(span, parent))

    def points(self, name: str, **labels: object) -> list[Any]:
        """Data points of a metric, by its OpenTelemetry name, with at least these labels."""
        self._read()
        points = self._points.get(name, [])
        return [point for point in points if labels.items() <= dict(point.attributes).items()]

    def value(self, name: str, **labels: object) -> float:
        """The sum of a counter, or of what a histogram was given."""
        points = self.points(name, **labels)
        return sum(point.sum if hasattr(point, "sum") else point.value for point in points)

    def count(self, name: str, **labels: object) -> int:
        """How often a histogram was given something."""
        return sum(point.count for point in self.points(name, **labels))

    def latest(self, name: str, **labels: object) -> float | None:
        """What a gauge showed last."""
        points = self.points(name, **labels)
        return points[-1].value if points else None

    def metric_names(self) -> set[str]:
        self._read()
        return {name for name, points in self._points.items() if points}

    def everything(self) -> str:
        """All that was seen, as one text: names, attributes, events, statuses, links, points."""
        self._read()
        spans = "\n".join(span.to_json() for span in self.spans())
        return f"{spans}\n{self._points!r}"

    def _read(self) -> None:
        data = self._reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self._points.setdefault(metric.name, []).extend(metric.data.data_points)


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id
