"""Spans and metrics of real calls, as the process that makes them would send them."""

from collections.abc import Iterator

import pytest

from tests.captured_telemetry import CapturedTelemetry


@pytest.fixture(scope="session")
def captured_telemetry() -> CapturedTelemetry:
    return CapturedTelemetry()


@pytest.fixture
def telemetry(captured_telemetry: CapturedTelemetry) -> Iterator[CapturedTelemetry]:
    """What the test itself leaves behind."""
    with captured_telemetry.listening():
        yield captured_telemetry
