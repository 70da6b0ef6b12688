"""What the code measures: every instrument it makes, and what Prometheus calls it."""

import runpy
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from opentelemetry.exporter.prometheus._mapping import map_unit, sanitize_full_name
from opentelemetry.metrics import Counter, Histogram, NoOpMeter, ObservableGauge

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("src", "workflows", "activities", "worker")
INSTRUMENTS = CHECKOUT / "src/durable_context/telemetry/instruments.py"


class Instrument(NamedTuple):
    kind: str
    name: str
    unit: str


class _WritingDown(NoOpMeter):
    """A meter that knows what was asked of it."""

    def __init__(self) -> None:
        super().__init__("durable_context")
        self.made: list[Instrument] = []

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        self.made.append(Instrument("counter", name, unit))
        return super().create_counter(name, unit, description)

    def create_histogram(
        self, name: str, unit: str = "", description: str = "", **options: Any
    ) -> Histogram:
        self.made.append(Instrument("histogram", name, unit))
        return super().create_histogram(name, unit, description, **options)

    def create_observable_gauge(
        self,
        name: str,
        callbacks: Any = None,
        unit: str = "",
        description: str = "",
    ) -> ObservableGauge:
        self.made.append(Instrument("gauge", name, unit))
        return super().create_observable_gauge(name, callbacks, unit, description)


def instruments() -> list[Instrument]:
    """Made anew for us, beside those that the process has."""
    meter = _WritingDown()
    with patch("opentelemetry.metrics.get_meter", return_value=meter):
        made = runpy.run_path(str(INSTRUMENTS))
    made["observe_lag"](lambda: None)
    return meter.made


def prometheus_name(instrument: Instrument) -> str:
    """Without what the series of a histogram add to it."""
    name, unit = sanitize_full_name(instrument.name), map_unit(instrument.unit)
    if unit and not name.endswith(unit):
        name = f"{name}_{unit}"
    return f"{name}_total" if instrument.kind == "counter" else name
