"""Temporal's own tracing interceptor, with spans that tell the kind of an error and no more. It
would add messages and stack traces, which may quote anything.
"""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes, AttributeValue
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.service import RPCError, RPCStatusCode

from durable_context.telemetry.spans import ERROR_TYPE

SCOPE = "temporalio"
RPC_STATUS = "rpc.response.status_code"


def tracing() -> TracingInterceptor:
    return _Tracing(_QuietTracer(trace.get_tracer(SCOPE)))


class _Tracing(TracingInterceptor):
    """Headers name the trace alone. Baggage, which is any text of the process's own, stays out."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self.text_map_propagator = TraceContextTextMapPropagator()


class _QuietTracer(Tracer):
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def start_span(self, *args: Any, **kwargs: Any) -> Span:
        return _QuietSpan(self._tracer.start_span(*args, **kwargs))

    @contextmanager
    def start_as_current_span(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, name: str, *, set_status_on_exception: bool = False, **kwargs: Any
    ) -> Generator[Span]:
        span = self.start_span(name, **kwargs)
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            yield span


class _QuietSpan(Span):
    def __init__(self, span: Span) -> None:
        self._span = span

    def get_span_context(self) -> SpanContext:
        return self._span.get_span_context()

    def is_recording(self) -> bool:
        return self._span.is_recording()

    def end(self, end_time: int | None = None) -> None:
        self._span.end(end_time)

    def update_name(self, name: str) -> None:
        self._span.update_name(name)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self._span.set_attribute(key, value)

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        self._span.set_attributes(attributes)

    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        self._span.add_event(name, attributes, timestamp)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Without the description, which is the message of the error that is handled right now.

        That no run is open is an answer, by which the next one is begun.
        """
        error = sys.exception()
        if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
            self._span.set_attribute(RPC_STATUS, error.status.name)
            return
        if error is not None:
            self._span.set_attribute(ERROR_TYPE, type(error).__name__)
        self._span.set_status(status.status_code if isinstance(status, Status) else status)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self._span.set_attribute(ERROR_TYPE, type(exception).__name__)
        self._span.set_status(StatusCode.ERROR)
