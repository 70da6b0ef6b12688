"""Alerts fire where they should and nowhere else, as Prometheus' own tool sees it."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.observability.prometheus_server import installed
from tests.telemetry.queries import ALERTS, rules

CASES = sorted((Path(__file__).parent / "rules").glob("*.yml"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_each_alert_fires_in_time_and_stays_quiet_otherwise(case: Path) -> None:
    promtool("test", "rules", case)


def test_every_alert_is_seen_to_fire_and_to_stay_quiet() -> None:
    fires, quiet = set[str](), set[str]()
    for case in CASES:
        for test in yaml.safe_load(case.read_text())["tests"]:
            *_, last = test["alert_rule_test"]
            (fires if last["exp_alerts"] else quiet).add(last["alertname"])
    assert fires == quiet == {rule["alert"] for rule in rules()}


def test_prometheus_takes_the_rules_and_the_example_configuration() -> None:
    promtool("check", "rules", ALERTS)
    promtool("check", "config", ALERTS.with_name("prometheus.yml"))


def promtool(*arguments: str | Path) -> None:
    command = [installed("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
