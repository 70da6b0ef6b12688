"""What the dashboard and the alerts ask for is what real processes show: a worker's two endpoints,
and an agent's.
"""

import asyncio
import os
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.own_namespace import own_namespace
from tests.telemetry.measured import CHECKOUT, instruments, prometheus_name
from tests.telemetry.queries import Sample, Selector, grouping, queries, selectors
from tests.telemetry.scraping import scraped_worker
from worker.settings import with_temporal

SUFFIXES = ("", "_bucket", "_sum", "_count")


async def test_queries_find_what_real_processes_show(
    database_url: str, temporal_address: str, tmp_path: Path
) -> None:
    namespace = (await own_namespace(temporal_address, "queries")).namespace
    environment = with_temporal(os.environ, temporal_address, namespace)
    worker = await scraped_worker(tmp_path, database_url, temporal_address, namespace)
    texts = worker.own.text, worker.temporal.text, await _agent(database_url, environment)
    shown = [sample for text in texts for sample in samples(text)]
    assert unanswered(shown) == []
    assert labels_not_there(shown) == []
    assert not_measured(shown) == []


def test_a_name_a_label_and_a_value_that_are_not_there_are_found_out() -> None:
    shown = [Sample("known_total", {"outcome": "made"}, 1.0)]
    asked = ('known_total{outcome="made"}', "unknown_total", 'known_total{outcome="lost"}')
    selected = [bool(selected_by(one, shown)) for each in asked for one in selectors(each)]
    assert selected == [True, False, False]
    assert not selected_by(selectors('known_total{result="made"}')[0], shown)


def unanswered(shown: list[Sample]) -> list[tuple[str, str]]:
    return [
        (query.of, str(selector))
        for query in queries()
        for selector in selectors(query.expression)
        if not selected_by(selector, shown)
    ]


def labels_not_there(shown: list[Sample]) -> list[tuple[str, str]]:
    """Labels that results are told apart by, but no series has."""
    missing: list[tuple[str, str]] = []
    for query in queries():
        found = [
            sample.labels.keys()
            for selector in selectors(query.expression)
            for sample in selected_by(selector, shown)
        ]
        known = set[str]().union(*found) | {"job", "instance"}
        missing += [(query.of, label) for label in grouping(query.expression) - known]
    return missing


def not_measured(shown: list[Sample]) -> list[str]:
    """Metrics there should be, of which no process shows any."""
    names = {sample.name for sample in shown}
    wanted = [prometheus_name(each) for each in instruments()]
    return [name for name in wanted if not names & {name + suffix for suffix in SUFFIXES}]


def selected_by(selector: Selector, shown: list[Sample]) -> list[Sample]:
    return [sample for sample in shown if selector.selects(sample)]


def samples(text: str) -> list[Sample]:
    families = text_string_to_metric_families(text)
    return [Sample(*sample[:3]) for family in families for sample in family.samples]


async def _agent(database_url: str, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.telemetry.agent", database_url),
        cwd=CHECKOUT,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()
