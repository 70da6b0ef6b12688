"""What OpenTelemetry's variables say to a worker, and what it refuses."""

import logging

import pytest

from worker.errors import InvalidSettings
from worker.providers import SeldomComplaints
from worker.telemetry_settings import TelemetrySettings, of_a_child

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def test_nothing_is_sent_unless_it_is_said_where_to() -> None:
    assert TelemetrySettings.from_env({}) == TelemetrySettings()


def test_an_endpoint_is_sent_everything_and_one_of_a_signal_only_that() -> None:
    both = TelemetrySettings.from_env({ENDPOINT: "http://collector:4318"})
    assert both == TelemetrySettings(traces=True, metrics=True)
    traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}
    assert TelemetrySettings.from_env(traces) == TelemetrySettings(traces=True)


def test_an_exporter_is_named_or_turned_off() -> None:
    sent = TelemetrySettings.from_env({"OTEL_METRICS_EXPORTER": "otlp"})
    assert sent == TelemetrySettings(metrics=True)
    off = {ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}
    assert TelemetrySettings.from_env(off) == TelemetrySettings(metrics=True)


def test_all_of_it_can_be_disabled() -> None:
    disabled = TelemetrySettings.from_env({"OTEL_SDK_DISABLED": "TRUE", ENDPOINT: "http://c:4318"})
    assert disabled == TelemetrySettings(disabled=True)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "jaeger"},
            "OTEL_TRACES_EXPORTER='jaeger' must be otlp or none; Prometheus reads /metrics at"
            " DURABLE_CONTEXT_HEALTH_ADDRESS",
        ),
        (
            {ENDPOINT: "collector:4318"},
            "OTEL_EXPORTER_OTLP_ENDPOINT='collector:4318' must be an address such as"
            " http://localhost:4318",
        ),
        (
            {ENDPOINT: "http://collector:port"},
            "OTEL_EXPORTER_OTLP_ENDPOINT='http://collector:port' must be an address such as"
            " http://localhost:4318",
        ),
        (
            {ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL='grpc' must be http/protobuf",
        ),
        (
            {
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            },
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL='http/json' must be http/protobuf",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(environ: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        TelemetrySettings.from_env(environ)
    assert str(refused.value) == message


def test_what_a_program_says_for_itself_does_not_stop_the_worker_it_starts() -> None:
    said = {
        "OTEL_SERVICE_NAME": "agent",
        "OTEL_TRACES_EXPORTER": "console",
        ENDPOINT: "collector:4317",
        "HOME": "/home",
    }
    given = of_a_child(said)
    assert TelemetrySettings.from_env(given) == TelemetrySettings()
    assert given["HOME"] == "/home" and "OTEL_SERVICE_NAME" not in given
    assert of_a_child({ENDPOINT: "http://c:4318"}) == {ENDPOINT: "http://c:4318"}


def test_without_the_extra_otlp_is_refused_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.telemetry_settings.find_spec", lambda name: None)
    assert TelemetrySettings.from_env({}) == TelemetrySettings()
    with pytest.raises(InvalidSettings, match=r"pip install durable-context\[telemetry\]"):
        TelemetrySettings.from_env({ENDPOINT: "http://collector:4318"})


def test_one_complaint_of_an_exporter_is_enough_for_a_while() -> None:
    seldom = SeldomComplaints()
    record = logging.makeLogRecord({"name": "opentelemetry.sdk.trace", "msg": "away"})
    assert [seldom.filter(record) for _ in range(3)] == [True, False, False]
    ours = logging.makeLogRecord({"name": "worker", "msg": "away"})
    assert [seldom.filter(ours) for _ in range(3)] == [True, True, True]
