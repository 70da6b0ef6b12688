"""Temporal: reached, with its namespace and search attributes, workers that poll, and schedules.

It imports temporalio and is itself imported when it is first needed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_context.compaction.connection_errors import without_rust
from durable_context.compaction.requests import CompactionRequests
from durable_context.compaction.search_attributes import registered_search_attributes
from durable_context.contracts import SEARCH_ATTRIBUTES, SUMMARY_TASK_QUEUE
from durable_context.doctor.diagnosis import Diagnosis, failed, ok, warning
from durable_context.doctor.polling import Polling, polling
from durable_context.errors import CompactionUnavailable
from durable_context.schedules import PAUSED_AT_FIRST, SweepSchedule

SECONDS = 10.0
"""Bound on one check."""
WORKFLOWS = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
ENDED_BADLY = ("failed", "timed_out", "terminated", "canceled")


async def temporal_diagnoses(
    requests: CompactionRequests, *, summary_task_queue: str = SUMMARY_TASK_QUEUE
) -> tuple[Diagnosis, ...]:
    """Only the first where it cannot be reached."""
    try:
        client = (await asyncio.wait_for(requests.reached(), SECONDS)).client
    except (CompactionUnavailable, TimeoutError, RuntimeError, ValueError, OSError) as error:
        return (_unreachable(error),)
    target = client.service_client.config.target_host
    namespace = await _bounded("namespace", _namespace(client))
    diagnoses = [ok("temporal", f"answers at {target}"), namespace]
    if namespace.state == "failed":
        return tuple(diagnoses)
    checks: dict[str, Coroutine[Any, Any, Diagnosis]] = {
        "search attributes": _attributes(client),
        "worker for compactions": _workers(
            client, "worker for compactions", requests.task_queue, (WORKFLOWS, ACTIVITIES)
        ),
        "worker for summaries": _workers(
            client, "worker for summaries", summary_task_queue, (ACTIVITIES,)
        ),
        "schedules": _schedules(requests),
    }
    return (*diagnoses, *[await _bounded(check, look) for check, look in checks.items()])


def _unreachable(error: Exception) -> Diagnosis:
    message = (
        "does not answer" if isinstance(error, TimeoutError) else without_rust(str(error))[:300]
    )
    mend = (
        "start Temporal, or name a running one in TEMPORAL_ADDRESS or with --temporal; until then"
        " turns are recorded and not compacted"
    )
    return failed("temporal", message, mend)


async def _bounded(check: str, look: Coroutine[Any, Any, Diagnosis]) -> Diagnosis:
    try:
        return await asyncio.wait_for(look, SECONDS)
    except TimeoutError:
        return failed(check, "no answer in time", "look at Temporal's own health")
    except (RPCError, CompactionUnavailable) as error:
        if isinstance(error, RPCError) and error.status == RPCStatusCode.PERMISSION_DENIED:
            return warning(check, "Temporal does not allow a look", "ask with another key")
        return failed(check, without_rust(str(error))[:300], "look at Temporal's own health")


async def _namespace(client: Client) -> Diagnosis:
    name = client.namespace
    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        mend = f"create it (`temporal operator namespace create {name}`), or set TEMPORAL_NAMESPACE"
        return failed("namespace", f"there is none named {name!r}", mend)
    return ok("namespace", name)


async def _attributes(client: Client) -> Diagnosis:
    known = await registered_search_attributes(client)
    missing = [name for name in SEARCH_ATTRIBUTES if name not in known]
    if missing:
        mend = "run `python -m durable_context.migrations` with TEMPORAL_ADDRESS set"
        message = f"not registered: {', '.join(missing)}; runs are found by their ids alone"
        return warning("search attributes", message, mend)
    return ok("search attributes", f"{len(SEARCH_ATTRIBUTES)} registered")


async def _workers(
    client: Client, check: str, queue: str, kinds: tuple["TaskQueueType.ValueType", ...]
) -> Diagnosis:
    found = [await polling(client, queue, kind) for kind in kinds]
    if not all(one.identities for one in found):
        mend = "start one: `python -m worker`, with this Temporal and this database"
        return failed(check, f"nobody polls the task queue {queue}", mend)
    if passed_over := [one for one in found if one.is_passed_over]:
        return _waiting(check, queue, passed_over[0])
    polled_by = {identity for one in found for identity in one.identities}
    return ok(check, f"{len(polled_by)} poll the task queue {queue}")


def _waiting(check: str, queue: str, found: Polling) -> Diagnosis:
    """What is new goes to a build, or to workers without one, of which none polls."""
    goes_to = f"build {found.current.build_id}" if found.current else "workers without a build"
    message = f"what is new in the task queue {queue} waits: it goes to {goes_to}, and none polls"
    builds = sorted(build for build in found.builds if build)
    if not builds:
        return failed(check, message, "start workers of that build, or make none the current one")
    return failed(check, message, f"`{builds[-1].promotion}`")


async def _schedules(requests: CompactionRequests) -> Diagnosis:
    found = await (await requests.schedules()).all()
    missing = [one.kind for one in found if not one.exists]
    failing = [one for one in found if one.last_status in ENDED_BADLY]
    paused = [one.kind for one in found if one.paused and one.kind not in PAUSED_AT_FIRST]
    if failing:
        message = "; ".join(_ended(one) for one in failing)
        return failed("schedules", message, "look at the sweep's run in Temporal's UI")
    if missing:
        mend = "`durable-context schedules apply`, or start a worker with DURABLE_CONTEXT_SCHEDULES"
        return warning("schedules", f"missing: {', '.join(missing)}", mend)
    if paused:
        mend = f"`durable-context schedules resume {paused[0]}`, when its sweep is wanted"
        return warning("schedules", f"paused: {', '.join(paused)}", mend)
    return ok("schedules", f"{len(found)} there")


def _ended(one: SweepSchedule) -> str:
    why = f": {' '.join(one.last_error.split()):.200}" if one.last_error else ""
    return f"the last {one.kind} sweep {one.last_status}{why}"
