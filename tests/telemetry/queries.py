"""What the shipped dashboard and alert rules ask of Prometheus: their expressions, taken apart."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "durable-context.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"

VARIABLES = {"$__rate_interval": "5m", "$job": ".*", "$recipe": ".*"}
"""What Grafana puts in their place when nothing is chosen."""
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds to what it scrapes."""


class Sample(NamedTuple):
    """One line of what a process shows."""

    name: str
    labels: dict[str, str]
    value: float


class Query(NamedTuple):
    """An expression of a panel or of an alert, and the legend it is shown with."""

    of: str
    expression: str
    legend: str = ""


class Selector(NamedTuple):
    name: str
    matchers: tuple[promql_parser.Matcher, ...]

    def selects(self, sample: Sample) -> bool:
        """What is excluded may be all there is, if the label is there to exclude it by."""
        return sample.name == self.name and all(
            _matches(each, sample.labels.get(each.name, ""))
            or (each.name in sample.labels and _excludes(each))
            for each in self.matchers
            if each.name not in OF_TARGETS
        )


def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def panels() -> list[dict[str, Any]]:
    """Those that show something: rows are only headings."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def panel_queries(panel: dict[str, Any], variables: dict[str, str] = VARIABLES) -> list[Query]:
    return [
        Query(panel["title"], with_values(target["expr"], variables), target["legendFormat"])
        for target in panel["targets"]
    ]


def rules() -> list[dict[str, Any]]:
    return [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]


def queries() -> list[Query]:
    """All there are, ready to be parsed."""
    shown = [query for panel in panels() for query in panel_queries(panel)]
    return shown + [Query(rule["alert"], rule["expr"]) for rule in rules()]


def with_values(expression: str, variables: dict[str, str] = VARIABLES) -> str:
    for name, value in variables.items():
        expression = expression.replace(name, value)
    return expression


def selectors(expression: str) -> list[Selector]:
    found: list[Selector] = []
    for part in _parts(expression):
        if isinstance(part, promql_parser.VectorSelector):
            found.append(Selector(part.name or "", tuple(part.matchers.matchers)))
    return found


def grouping(expression: str) -> set[str]:
    """The labels that results have because the expression keeps them."""
    found: set[str] = set()
    for part in _parts(expression):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            found |= set(part.modifier.labels)
    return found


def _matches(matcher: promql_parser.Matcher, value: str) -> bool:
    kinds = promql_parser.MatchOp
    if matcher.op in (kinds.Equal, kinds.NotEqual):
        return (value == matcher.value) != _excludes(matcher)
    return bool(re.fullmatch(matcher.value, value)) != _excludes(matcher)


def _excludes(matcher: promql_parser.Matcher) -> bool:
    return matcher.op in (promql_parser.MatchOp.NotEqual, promql_parser.MatchOp.NotRe)


def _parts(expression: str) -> Iterator[promql_parser.Expr]:
    """Raises ValueError where it is no PromQL."""
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(expression), lambda part: found.append(part))
    return iter(found)
