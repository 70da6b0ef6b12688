"""The fixture that the other tests here look through."""

from opentelemetry import trace

from durable_context.telemetry import instruments
from tests.captured_telemetry import CapturedTelemetry

tracer = trace.get_tracer("tests")


def test_spans_and_metrics_of_the_test_are_seen(telemetry: CapturedTelemetry) -> None:
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
        instruments.hints.add(2, {"outcome": "sent"})
    assert telemetry.children(telemetry.span("outer")) == (telemetry.span("inner"),)
    instruments.hints.add(1, {"outcome": "sent"})
    assert telemetry.value("durable_context.hints", outcome="sent") == 3
    assert telemetry.value("durable_context.hints", outcome="lost") == 0


def test_nothing_is_kept_between_tests(captured_telemetry: CapturedTelemetry) -> None:
    instruments.prepare_tail.record(3)
    with tracer.start_as_current_span("between tests") as span:
        assert not span.is_recording()
    with captured_telemetry.listening():
        assert not captured_telemetry.spans()
        assert not captured_telemetry.points("durable_context.prepare.tail")
