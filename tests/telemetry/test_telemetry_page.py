"""docs/telemetry.md names all that there is, and nothing that is not."""

import re
from types import ModuleType

from durable_context.telemetry import model_calls, spans, steps
from tests.telemetry.measured import CHECKOUT, FOLDERS, INSTRUMENTS, instruments, prometheus_name
from tests.telemetry.queries import queries, selectors

PAGE = (CHECKOUT / "docs/telemetry.md").read_text()
MAKES_INSTRUMENTS = re.compile(r"\.create_(counter|histogram|up_down_counter|\w*gauge)\(")
OF_CALLS = {spans.PREPARE, spans.RECORD_TURN, spans.HINT, spans.COMPACT, spans.REBUILD}
OF_STEPS = {
    *(steps.PLAN, steps.SUMMARIZE, steps.SUMMARIZE_ARTIFACTS, steps.COMMIT, steps.INDEX),
    *(steps.PLAN_REBUILD, steps.REPLACE, steps.SWEEP, steps.OFFLOAD),
}
SERIES = re.compile(r"_(bucket|sum|count)$")


def test_the_tables_name_every_metric_with_its_unit_and_what_prometheus_calls_it() -> None:
    listed = {(row[0], row[1], row[2]) for row in rows("metric") if len(row) > 2}
    assert listed == {
        (f"`{each.name}`", f"`{prometheus_name(each)}`", f"`{each.unit}`" if each.unit else "")
        for each in instruments()
    }


def test_no_instrument_is_made_anywhere_else() -> None:
    sources = (path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.py"))
    makers = {path for path in sources if MAKES_INSTRUMENTS.search(path.read_text())}
    assert makers == {INSTRUMENTS}


def test_the_table_names_each_span_of_ours() -> None:
    assert set(names(rows("span"))) == {*OF_CALLS, *OF_STEPS, "chat MODEL"}


def test_the_table_names_each_attribute_that_code_sets() -> None:
    named = {name for module in (spans, steps, model_calls) for name in constants(module)}
    assert set(names(rows("attribute"))) == named - OF_CALLS - OF_STEPS


def test_the_table_names_what_is_used_of_temporals_own_metrics() -> None:
    used = {one.name for query in queries() for one in selectors(query.expression)}
    used = {SERIES.sub("", name) for name in used if name.startswith("temporal_")}
    assert {name for name in names(rows("in Prometheus")) if "_" in name} == used


def rows(first_heading: str) -> list[list[str]]:
    """The cells of all tables that begin with this column, without their headings."""
    found: list[list[str]] = []
    inside = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif inside and not cells[0].startswith("---"):
            found.append(cells)
        elif cells[0] == first_heading:
            inside = True
    return found


def names(table: list[list[str]]) -> list[str]:
    return [name for row in table for name in re.findall(r"`([^`]+)`", row[0])]


def constants(module: ModuleType) -> list[str]:
    """Its names of spans and attributes."""
    texts = (getattr(module, name) for name in dir(module) if name.isupper())
    return [text for text in texts if isinstance(text, str) and "." in text]
