"""The shipped alert rules: each says what is wrong, how bad it is, and where to read what to do."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.telemetry.measured import CHECKOUT
from tests.telemetry.queries import ALERTS, OF_TARGETS, grouping, rules

RULES = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
SECONDS = {"s": 1, "m": 60, "h": 3600}
LEAST_WAIT = 300
"""Seconds: what is over by itself by then wakes nobody."""
SET_BY_NAME = re.compile(r'"(\w+)", "[^"]+", "", ""')


def test_alerts_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    assert all(name.startswith("DurableContext") for name in names)


@RULES
def test_an_alert_says_how_bad_it_is_and_waits_before_it_fires(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert seconds(rule["for"]) >= LEAST_WAIT


@RULES
def test_an_alert_tells_what_is_wrong_with_its_figure(rule: dict[str, Any]) -> None:
    said = rule["annotations"]
    assert said.keys() == {"summary", "description", "runbook_url"}
    has_figure = not re.match(r"(label_replace\()?absent", rule["expr"])
    assert ("$value" in said["description"]) == has_figure


@RULES
def test_an_alert_speaks_of_labels_that_it_has(rule: dict[str, Any]) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
    has = grouping(rule["expr"]) | set(SET_BY_NAME.findall(rule["expr"]))
    assert named <= has
    assert named | OF_TARGETS >= has - {"le"}  # what it does not speak of it need not keep


@RULES
def test_an_alert_leads_to_what_to_do(rule: dict[str, Any]) -> None:
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (CHECKOUT / path).read_text(), re.MULTILINE)
    assert anchor == rule["alert"].lower()
    assert rule["alert"] in headings


def test_every_runbook_is_that_of_an_alert() -> None:
    page = (CHECKOUT / "docs/telemetry.md").read_text()
    headings = re.findall(r"^#+ (DurableContext.+)$", page, re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules()]


def test_the_example_configuration_reads_the_rules_and_the_three_kinds_of_endpoints() -> None:
    example = yaml.safe_load(Path(ALERTS).with_name("prometheus.yml").read_text())
    assert example["rule_files"] == [ALERTS.name]
    jobs = [job["job_name"] for job in example["scrape_configs"]]
    assert jobs == [f"durable-context-{part}" for part in ("worker", "temporal", "agent")]


def seconds(duration: str) -> int:
    return int(duration[:-1]) * SECONDS[duration[-1]]
