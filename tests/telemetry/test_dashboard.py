"""The shipped dashboard: Grafana can load it, and a reader can tell what each panel shows."""

import json
import re
from itertools import combinations, pairwise
from typing import Any

import pytest

from tests.telemetry.measured import instruments, prometheus_name
from tests.telemetry.queries import (
    VARIABLES,
    dashboard,
    grouping,
    panel_queries,
    panels,
    queries,
    selectors,
)

PANELS = pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
COLUMNS = 24
OF_GRAFANA = {"$__rate_interval"}
HIDDEN = {"le"}
"""Labels that a function uses up."""
SHARED_SUFFIXES = re.compile(r"_(bucket|sum|count)$")


def test_grafana_can_provision_it() -> None:
    model = dashboard()
    assert model["uid"] == "durable-context" and model["title"] == "Durable Context"
    assert model["id"] is None and "__inputs" not in model  # both belong to one server
    assert model["schemaVersion"] >= 39  # Grafana 11
    ids = [panel["id"] for panel in model["panels"]]
    assert len(ids) == len(set(ids))


def test_panels_lie_beside_one_another() -> None:
    cells = [_cells(panel["gridPos"]) for panel in dashboard()["panels"]]
    assert all(x < COLUMNS for taken in cells for x, _ in taken)
    assert not any(one & other for one, other in combinations(cells, 2))
    tops = [panel["gridPos"]["y"] for panel in dashboard()["panels"]]
    assert all(one <= other for one, other in pairwise(tops))


@PANELS
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    assert panel["description"].endswith(".")
    assert defaults["unit"] and defaults["thresholds"]["steps"][0]["value"] is None
    for target in panel["targets"]:
        assert target["datasource"] == panel["datasource"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert target["legendFormat"]


@PANELS
def test_a_legend_tells_series_apart(panel: dict[str, Any]) -> None:
    for query in panel_queries(panel):
        in_legend = set(re.findall(r"{{(\w+)}}", query.legend))
        assert in_legend == grouping(query.expression) - HIDDEN
    legends = [query.legend for query in panel_queries(panel)]
    assert len(legends) == len(set(legends))


def test_every_variable_is_defined_and_used() -> None:
    expressions = json.dumps(panels())
    used = set(re.findall(r"\$\w+|\$\{\w+\}", expressions))
    defined = {variable["name"] for variable in dashboard()["templating"]["list"]}
    assert {re.sub(r"\W", "", name) for name in used - OF_GRAFANA} == defined
    assert OF_GRAFANA | {f"${name}" for name in defined - {"datasource"}} == set(VARIABLES)


def test_all_that_is_measured_is_shown() -> None:
    shown = {
        SHARED_SUFFIXES.sub("", selector.name)
        for query in queries()
        for selector in selectors(query.expression)
    }
    assert {prometheus_name(each) for each in instruments()} <= shown


def test_nothing_is_named_by_a_conversation() -> None:
    assert not re.search(r"tenant|conversation|branch_(id|uuid)", json.dumps(panels()))


def _cells(place: dict[str, int]) -> set[tuple[int, int]]:
    return {
        (place["x"] + column, place["y"] + row)
        for column in range(place["w"])
        for row in range(place["h"])
    }
