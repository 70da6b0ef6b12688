"""Builds of a worker deployment: processes of `python -m worker` side by side on a real server."""

import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.workflow.v1 import VersioningOverride, WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import (
    SetWorkerDeploymentCurrentVersionRequest,
    UpdateWorkflowExecutionOptionsRequest,
)
from temporalio.client import Client, WorkflowHistory

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.contracts import COMPACTION_TASK_QUEUE, compaction_workflow_id
from durable_context.doctor.polling import Polling, polling
from tests.embedded.processes import until
from tests.model_server import ModelServer
from tests.own_namespace import own_namespace
from tests.sweeps.sweeping import Sweeps
from tests.turns import numbered
from tests.workflows.orchestration import events_of
from worker.settings import with_temporal
from worker.worker_process import WorkerProcess

NAME = "durable-context"
POLICY = CompactionPolicy(
    debounce=timedelta(0), passes_per_run=1, worker_lost_after=timedelta(seconds=5)
)
SEGMENT = POLICY.segment_turns
PATIENCE = timedelta(minutes=3)


@dataclass
class Deployment:
    """Its builds, by their ids, and the model that all of them ask."""

    temporal: Client
    client: ContextClient
    model: ModelServer
    environment: dict[str, str]
    directory: Path

    def build(self, build_id: str) -> WorkerProcess:
        names = {"TEMPORAL_DEPLOYMENT_NAME": NAME, "TEMPORAL_WORKER_BUILD_ID": build_id}
        return WorkerProcess(self.directory / build_id, self.environment | names)

    def log(self, build_id: str) -> str:
        return (self.directory / build_id / "worker.log").read_text()

    async def says(self, build_id: str, words: str) -> None:
        await until(lambda: words in self.log(build_id), seconds=120)

    async def promote(self, build_id: str) -> None:
        await self.temporal.workflow_service.set_worker_deployment_current_version(
            SetWorkerDeploymentCurrentVersionRequest(
                namespace=self.temporal.namespace, deployment_name=NAME, build_id=build_id
            )
        )

    async def open_runs(self, build_id: str) -> set[str]:
        """By the query that docs/operations.md gives."""
        query = f"TemporalWorkerDeploymentVersion='{NAME}:{build_id}' AND ExecutionStatus='Running'"
        return {found.id async for found in self.temporal.list_workflows(query)}

    async def give(self, workflow_id: str, build_id: str) -> None:
        """As `temporal workflow update-options` does."""
        version = WorkerDeploymentVersion(deployment_name=NAME, build_id=build_id)
        pinned = VersioningOverride.PinnedOverride(
            behavior=VersioningOverride.PINNED_OVERRIDE_BEHAVIOR_PINNED, version=version
        )
        await self.temporal.workflow_service.update_workflow_execution_options(
            UpdateWorkflowExecutionOptionsRequest(
                namespace=self.temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=workflow_id),
                workflow_execution_options=WorkflowExecutionOptions(
                    versioning_override=VersioningOverride(pinned=pinned)
                ),
                update_mask=FieldMask(paths=["versioning_override"]),
            )
        )

    async def polling(self) -> Polling:
        kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        return await polling(self.temporal, COMPACTION_TASK_QUEUE, kind)

    async def record(self, name: str, turns: int) -> Branch:
        branch = await self.client.open_branch(name, "main")
        for turn in range(1, turns + 1):
            await branch.record_turn(numbered(turn), turn_key=str(turn))
        return branch

    async def runs(self, workflow_id: str) -> list[WorkflowHistory]:
        """All of one id, in no order."""
        handles = [
            self.temporal.get_workflow_handle(workflow_id, run_id=found.run_id)
            async for found in self.temporal.list_workflows(f"WorkflowId = '{workflow_id}'")
        ]
        return [await handle.fetch_history() for handle in handles]


@pytest.fixture
async def deployment(
    temporal_address: str, database_url: str, tmp_path: Path
) -> AsyncIterator[Deployment]:
    temporal = await own_namespace(temporal_address, "builds")
    async with (
        ModelServer() as model,
        await ContextClient.connect(database_url, temporal=temporal, policy=POLICY) as client,
    ):
        environment = with_temporal(os.environ, temporal_address, temporal.namespace) | {
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
            "DURABLE_CONTEXT_SUMMARIZERS": "model:openai:made-up",
            "DURABLE_CONTEXT_MODEL_BASE_URL": model.base_url,
        }
        yield Deployment(temporal, client, model, environment, tmp_path)


async def test_a_run_ends_on_the_build_it_began_on_and_a_new_one_goes_to_the_current(
    deployment: Deployment,
) -> None:
    async with deployment.build("1") as first:
        await deployment.says("1", "of durable-context is")
        await deployment.promote("1")
        deployment.model.hold()
        old = await deployment.record("old", 2 * SEGMENT + POLICY.keep_raw_turns)
        await deployment.model.request_arrived()
        async with deployment.build("2") as second:
            await deployment.says("2", "build 2 of durable-context is not current")
            assert "new runs go to build 1" in deployment.log("2")
            await deployment.promote("2")
            deployment.model.release()
            await old.wait_until_compacted(timeout=PATIENCE)
            new = await deployment.record("new", SEGMENT + POLICY.keep_raw_turns)
            await new.wait_until_compacted(timeout=PATIENCE)
            sweep = await Sweeps(deployment.temporal, COMPACTION_TASK_QUEUE).begin("catch-up")
            await sweep.result()

            of_old = await deployment.runs(compaction_workflow_id(old.branch_uuid))
            assert len(of_old) > 1  # it was continued as new, while the other build was current
            assert _pids(of_old) == {first.pid}
            of_new = await deployment.runs(compaction_workflow_id(new.branch_uuid))
            assert _pids(of_new) == {second.pid}
            assert _pids([await sweep.fetch_history()]) == {second.pid}


async def test_where_no_build_is_current_the_worker_says_the_command_that_ends_the_wait(
    deployment: Deployment,
) -> None:
    async with deployment.build("1") as worker:
        branch = await deployment.record("waiting", SEGMENT + POLICY.keep_raw_turns)
        await deployment.says("1", "no build of durable-context is current")
        assert (
            "temporal worker deployment set-current-version"
            " --deployment-name durable-context --build-id 1 --yes"
        ) in deployment.log("1")
        assert deployment.model.count == 0
        assert (await deployment.polling()).is_passed_over
        await deployment.promote("1")
        await branch.wait_until_compacted(timeout=PATIENCE)
        assert not (await deployment.polling()).is_passed_over
        runs = await deployment.runs(compaction_workflow_id(branch.branch_uuid))
        assert _pids(runs) == {worker.pid}


async def test_a_run_of_a_build_that_is_gone_can_be_given_to_another(
    deployment: Deployment,
) -> None:
    async with deployment.build("1") as first:
        await deployment.says("1", "of durable-context is")
        await deployment.promote("1")
        deployment.model.hold()
        branch = await deployment.record("orphan", SEGMENT + POLICY.keep_raw_turns)
        await deployment.model.request_arrived()
        os.kill(first.pid, signal.SIGKILL)
        await first.failed()
    deployment.model.release()
    async with deployment.build("2") as second:
        await deployment.says("2", "build 2 of durable-context is not current")
        await deployment.promote("2")
        workflow_id = compaction_workflow_id(branch.branch_uuid)
        assert workflow_id in await deployment.open_runs("1")
        await deployment.give(workflow_id, "2")
        await branch.wait_until_compacted(timeout=PATIENCE)
        assert second.pid in _pids(await deployment.runs(workflow_id))


def _pids(histories: list[WorkflowHistory]) -> set[int]:
    """Of the processes that did something of these runs: workflow tasks and activities."""
    tasks, activities = (
        [event for history in histories for event in events_of(history, name)]
        for name in ("WORKFLOW_TASK_STARTED", "ACTIVITY_TASK_STARTED")
    )
    identities = {event.workflow_task_started_event_attributes.identity for event in tasks} | {
        event.activity_task_started_event_attributes.identity for event in activities
    }
    return {int(identity.partition("@")[0]) for identity in identities}
