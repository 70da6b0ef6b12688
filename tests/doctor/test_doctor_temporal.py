"""`durable-context doctor` and Temporal, workers, the object store and the environment."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from activities.compaction import CompactionActivities
from activities.offload import OffloadActivities
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.requests import CompactionRequests, register_search_attributes
from durable_context.contracts import COMPACTION_TASK_QUEUE, SUMMARY_TASK_QUEUE
from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from durable_context.database import Pool
from durable_context.offload.durable import DurableOffload
from durable_context.schedules import ScheduleSettings
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.doctor.conftest import Examine, said, states
from workflows.compaction import Compaction

DOWN = "127.0.0.1:1"


@pytest.fixture
async def workers(patient: Client, pool: Pool) -> AsyncIterator[None]:
    compactor = Compactor(pool, ExtractiveSummarizer())
    activities = CompactionActivities(compactor)
    offloads = OffloadActivities(DurableOffload(pool, ExtractiveSummarizer()))
    compactions = Worker(
        patient,
        task_queue=COMPACTION_TASK_QUEUE,
        workflows=[Compaction],
        activities=[activities.plan],
    )
    summaries = Worker(patient, task_queue=SUMMARY_TASK_QUEUE, activities=[offloads.offload])
    async with compactions, summaries:
        yield


@pytest.fixture
async def schedules(patient: Client) -> AsyncIterator[CompactionRequests]:
    """All applied; gone after the test."""
    requests = CompactionRequests(patient)
    await (await requests.schedules()).apply(ScheduleSettings())
    yield requests
    for kind in SWEEP_KINDS:
        await patient.get_schedule_handle(schedule_id(kind)).delete()


async def test_without_temporal_the_other_checks_go_on(examine: Examine):
    seen = await examine("--json", TEMPORAL_ADDRESS=DOWN, TEMPORAL_API_KEY="s3cret")
    assert seen.code == 1
    message, mend = said(seen, "temporal")
    assert DOWN in message and "rustls" not in message and "TEMPORAL_ADDRESS" in mend
    assert states(seen)["database"] == states(seen)["object store"] == "ok"
    assert "namespace" not in states(seen) and "s3cret" not in seen.out + seen.errors


async def test_an_unknown_namespace_comes_with_the_command(examine: Examine):
    seen = await examine("--json", TEMPORAL_NAMESPACE="nowhere")
    assert seen.code == 1 and states(seen)["temporal"] == "ok"
    message, mend = said(seen, "namespace")
    assert message == "there is none named 'nowhere'"
    assert "temporal operator namespace create nowhere" in mend


async def test_without_workers_attributes_and_schedules_each_says_so(examine: Examine):
    seen = await examine("--json")
    assert seen.code == 1
    assert {name: state for name, state in states(seen).items() if state != "ok"} == {
        "search attributes": "warning",
        "worker for compactions": "failed",
        "worker for summaries": "failed",
        "schedules": "warning",
    }
    assert (
        "CompactionTenant, CompactionConversation, CompactionBranch"
        in said(seen, "search attributes")[0]
    )
    assert "python -m durable_context.migrations" in said(seen, "search attributes")[1]
    assert said(seen, "worker for summaries") == (
        "nobody polls the task queue durable-context-summaries",
        "start one: `python -m worker`, with this Temporal and this database",
    )
    assert said(seen, "schedules")[0] == "missing: catch-up, merge, upgrade, retention, verify"
    assert "durable-context schedules apply" in said(seen, "schedules")[1]


async def test_where_no_build_is_current_the_doctor_says_that_new_runs_wait(
    examine: Examine, patient: Client, pool: Pool
):
    """Compactions; the worker for summaries has no build, and nothing waits for one."""
    activities = CompactionActivities(Compactor(pool, ExtractiveSummarizer()))
    version = WorkerDeploymentVersion("agents", "7")
    compactions = Worker(
        patient,
        task_queue=COMPACTION_TASK_QUEUE,
        workflows=[Compaction],
        activities=[activities.plan],
        deployment_config=WorkerDeploymentConfig(
            version=version,
            use_worker_versioning=True,
            default_versioning_behavior=VersioningBehavior.PINNED,
        ),
    )
    summaries = Worker(patient, task_queue=SUMMARY_TASK_QUEUE, activities=[activities.summarize])
    async with compactions, summaries:
        seen = await examine("--json")
        assert seen.code == 1
        assert states(seen)["worker for summaries"] == "ok"
        assert said(seen, "worker for compactions") == (
            "what is new in the task queue durable-context-compaction waits: it goes to workers"
            " without a build, and none polls",
            "`temporal worker deployment set-current-version"
            " --deployment-name agents --build-id 7 --yes`",
        )


async def test_what_is_well_ends_with_0_in_a_few_lines(
    examine: Examine, patient: Client, workers: None, schedules: CompactionRequests
):
    await register_search_attributes(patient)
    while "failed" in states(seen := await examine("--json")).values():
        pass  # until the workers' first polls are known
    assert seen.code == 0 and set(states(seen).values()) == {"ok"}
    assert seen.figures["failed"] == seen.figures["warnings"] == 0
    shown = await examine()
    assert shown.code == 0 and len(shown.out.splitlines()) == len(states(seen)) + 1
    assert shown.out.splitlines()[-1] == "Nothing failed, 0 warnings."
    assert "to mend it" not in shown.out


async def test_a_schedule_that_is_paused_or_ended_badly_is_told(
    examine: Examine, patient: Client, schedules: CompactionRequests
):
    await (await schedules.schedules()).pause("catch-up", "for a while")
    seen = await examine("--json")
    assert said(seen, "schedules") == (
        "paused: catch-up",
        "`durable-context schedules resume catch-up`, when its sweep is wanted",
    )
    calls = await schedules.schedules()
    await calls.trigger("verify")
    await _terminate_the_sweep(patient)
    while states(seen := await examine("--json"))["schedules"] != "failed":
        pass  # until the schedule has heard of it
    assert said(seen, "schedules")[0].startswith("the last verify sweep terminated")
    shown = await examine()
    assert shown.code == 1 and "to mend it: look at the sweep's run" in shown.out


async def _terminate_the_sweep(client: Client) -> None:
    while True:
        async for run in client.list_workflows("ExecutionStatus = 'Running'"):
            if run.workflow_type == "Sweep":
                return await client.get_workflow_handle(run.id).terminate("not wanted")


async def test_an_object_store_that_cannot_be_written_to_is_told(examine: Examine, tmp_path: Path):
    assert said(await examine("--json"), "object store")[0] == "written to and read from"
    (tmp_path / "file").write_text("no directory")
    for url in ((tmp_path / "file" / "objects").as_uri(), "s3:/s3cret", "ftp://me:s3cret@x/y"):
        seen = await examine("--json", DURABLE_CONTEXT_ARTIFACT_URL=url)
        assert seen.code == 1 and states(seen)["database"] == "ok"
        assert states(seen)["object store"] == "failed"
        assert "DURABLE_CONTEXT_ARTIFACT_URL" in said(seen, "object store")[1]
        assert "s3cret" not in seen.out
    unset = await examine("--json", DURABLE_CONTEXT_ARTIFACT_URL=None)
    assert states(unset)["object store"] == "ok"


async def test_what_the_environment_says_wrong_is_told(examine: Examine):
    name = f"openai:{uuid4().hex}"
    seen = await examine("--json", DURABLE_CONTEXT_SUMMARIZERS=f"model:{name}, extractive")
    assert states(seen)["summarizers"] == "ok" and name in said(seen, "summarizers")[0]
    seen = await examine(
        "--json", DURABLE_CONTEXT_SUMMARIZERS="best one", DURABLE_CONTEXT_POLICY='{"fan_out": 1}'
    )
    assert seen.code == 1
    assert "summarizer 'best one' is not" in said(seen, "summarizers")[0]
    assert "fan_out" in said(seen, "policy")[0]
