"""Every history ever recorded replays with today's workflows, and not with ones that ask Temporal
for other things. See tests.replay.record.
"""

import json
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from durable_context.contracts import COMPACTION_WORKFLOW, CompactionRequest, CompactionResult
from durable_context.contracts.rebuild import REBUILD_WORKFLOW, RebuildRequest, RebuildResult
from durable_context.contracts.sweep import SWEEP_WORKFLOW, SweepRequest, SweepResult
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild
from workflows.sweep import Sweep

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))
WORKFLOWS = [Compaction, Rebuild, Sweep]


@workflow.defn(name=COMPACTION_WORKFLOW)
class LateCompaction(Compaction):
    @workflow.init
    def __init__(self, request: CompactionRequest) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: CompactionRequest) -> CompactionResult:
        await workflow.sleep(1)
        return await super().run(request)


@workflow.defn(name=REBUILD_WORKFLOW)
class LateRebuild(Rebuild):
    @workflow.init
    def __init__(self, request: RebuildRequest) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: RebuildRequest) -> RebuildResult:
        await workflow.sleep(1)
        return await super().run(request)


@workflow.defn(name=SWEEP_WORKFLOW)
class LateSweep(Sweep):
    @workflow.run
    async def run(self, request: SweepRequest) -> SweepResult:
        await workflow.sleep(1)
        return await super().run(request)


CHANGED: dict[str, type] = {
    "one-pass": LateCompaction,
    "rebuild": LateRebuild,
    "sweep": LateSweep,
}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_recorded_run_replays(path: Path) -> None:
    history = _history(path)
    replayer = Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter)
    result = await replayer.replay_workflow(history)
    assert result.replay_failure is None


@pytest.mark.parametrize("case", CHANGED)
async def test_a_change_that_would_break_an_open_run_is_caught(case: str) -> None:
    replayer = Replayer(
        workflows=[CHANGED[case]],
        data_converter=pydantic_data_converter,
        workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox would import this module anew
    )
    result = await replayer.replay_workflow(
        _history(_recorded(case)), raise_on_replay_failure=False
    )
    assert isinstance(result.replay_failure, workflow.NondeterminismError)


def _history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_recorded_history_names_no_machine(path: Path) -> None:
    text = path.read_text()
    assert '"stackTrace":"' not in text.replace('"stackTrace":""', "")
    assert "/src/" not in text and "site-packages" not in text


def test_the_cases_that_matter_are_recorded() -> None:
    cases = {_case(path) for path in HISTORIES}
    assert cases >= {"one-pass", "merge", "continued-as-new", "retried", "failed", "settled"}
    assert cases >= {"artifacts", "named-artifact", "artifacts-failed", "focused", "paused"}
    assert cases >= {"replanned", "merge-degraded", "indexed", "asked-within"}
    assert cases >= {"rebuild", "rebuild-in-vain", "sweep", "sweep-continued-as-new"}


@pytest.mark.parametrize("case", ["continued-as-new", "sweep-continued-as-new"])
def test_the_continued_run_ends_as_it_says(case: str) -> None:
    last = json.loads(_recorded(case).read_text())["events"][-1]
    assert last["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW"


def _recorded(case: str) -> Path:
    """The newest history of the case."""
    return [path for path in HISTORIES if _case(path) == case][-1]


def _case(path: Path) -> str:
    return path.stem.rsplit("-", 3)[0]
