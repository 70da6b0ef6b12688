"""Every history ever recorded replays with today's workflow. See tests.replay.record."""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workflows.compaction import Compaction

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_run_replays(path: Path) -> None:
    history = _history(path)
    replayer = Replayer(workflows=[Compaction], data_converter=pydantic_data_converter)
    result = await replayer.replay_workflow(history)
    assert result.replay_failure is None


def _history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_recorded_history_names_no_machine(path: Path) -> None:
    text = path.read_text()
    assert '"stackTrace":"' not in text.replace('"stackTrace":""', "")
    assert "/src/" not in text and "site-packages" not in text


def test_the_cases_that_matter_are_recorded() -> None:
    cases = {path.stem.rsplit("-", 3)[0] for path in HISTORIES}
    assert cases >= {"one-pass", "merge", "continued-as-new", "retried", "failed", "settled"}
    assert cases >= {"artifacts", "named-artifact", "artifacts-failed", "focused", "paused"}


def test_the_continued_run_ends_as_it_says() -> None:
    [path] = [path for path in HISTORIES if path.stem.startswith("continued-as-new")]
    last = json.loads(path.read_text())["events"][-1]
    assert last["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW"
