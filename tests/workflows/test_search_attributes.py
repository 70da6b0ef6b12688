"""Search attributes: registered where there is room, and never in the way of a run."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    RemoveSearchAttributesRequest,
)
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowHandle

from durable_context.compaction.rebuild_calls import start_rebuild
from durable_context.compaction.requests import CompactionRequests, register_search_attributes
from durable_context.contracts import (
    SEARCH_ATTRIBUTES,
    CompactionRequest,
    compaction_workflow_id,
)
from durable_context.contracts.rebuild import RebuildRequest, rebuild_workflow_id
from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from durable_context.policy import CompactionPolicy
from durable_context.schedules import ScheduleSettings
from durable_context.sweeps.schedule_calls import ScheduleCalls
from tests.own_namespace import own_namespace
from tests.workflows.run_pages import attributes

POLICY = CompactionPolicy(expose_ids=True)
MOST_KEYWORDS = 10
"""That the server has room for in a namespace."""


@pytest.fixture
async def patient(temporal_address: str) -> Client:
    """Of a namespace without workers."""
    return await own_namespace(temporal_address, "attributes")


def _request() -> CompactionRequest:
    return CompactionRequest(
        tenant="acme",
        branch_uuid=uuid4(),
        policy=POLICY,
        label="brightwater/main",
        conversation="brightwater",
    )


async def test_a_run_starts_without_them_once_the_server_refuses_them(
    patient: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """They were registered when they were listed, and somebody has removed one since."""
    assert await register_search_attributes(patient) == list(SEARCH_ATTRIBUTES)
    requests = CompactionRequests(patient, task_queue="nobody")
    before, after = _request(), _request()
    assert await requests.hint(before, 1, timedelta(0))
    removal = RemoveSearchAttributesRequest(
        namespace=patient.namespace, search_attributes=["CompactionReason"]
    )
    await patient.operator_service.remove_search_attributes(removal)
    assert await requests.hint(after, 1, timedelta(0))
    first = patient.get_workflow_handle(compaction_workflow_id(before.branch_uuid))
    second = patient.get_workflow_handle(compaction_workflow_id(after.branch_uuid))
    assert (await attributes(first))["CompactionConversation"] == "brightwater"
    assert not set(SEARCH_ATTRIBUTES) & set(await attributes(second))
    assert "runs start without them" in caplog.text


async def test_those_are_registered_that_there_is_room_for(
    patient: Client, caplog: pytest.LogCaptureFixture
) -> None:
    others = {
        f"Other{number}": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        for number in range(MOST_KEYWORDS - 1)
    }
    request = AddSearchAttributesRequest(namespace=patient.namespace, search_attributes=others)
    await patient.operator_service.add_search_attributes(request)
    assert await register_search_attributes(patient) == [SEARCH_ATTRIBUTES[0]]
    assert caplog.text.count("is not registered") == len(SEARCH_ATTRIBUTES) - 1


async def test_a_rebuild_has_them_too(patient: Client) -> None:
    await register_search_attributes(patient)
    compaction = _request()
    request = RebuildRequest(
        tenant=compaction.tenant,
        branch_uuid=compaction.branch_uuid,
        policy=POLICY,
        reason="upgrade",
        label=compaction.label,
        conversation=compaction.conversation,
    )
    assert await start_rebuild(patient, request, "nobody")
    handle = patient.get_workflow_handle(rebuild_workflow_id(request.branch_uuid))
    assert await attributes(handle) == {
        "CompactionTenant": "acme",
        "CompactionConversation": "brightwater",
        "CompactionBranch": "brightwater/main",
        "CompactionReason": "upgrade",
    }
    assert await (await handle.describe()).static_summary() == "upgrade brightwater/main"


async def test_sweeps_have_their_kind_as_reason_and_schedules_are_changed_once_for_that(
    patient: Client, temporal_address: str
) -> None:
    settings = ScheduleSettings(policy=POLICY)
    await ScheduleCalls(patient, "nobody").apply(settings)
    await register_search_attributes(patient)
    again = await Client.connect(
        temporal_address,
        namespace=patient.namespace,
        data_converter=patient.data_converter,
    )
    schedules = ScheduleCalls(again, "nobody")
    assert {one.changed for one in await schedules.apply(settings)} == {("search attributes",)}
    assert {one.change for one in await schedules.apply(settings)} == {"unchanged"}
    await schedules.trigger("verify")
    handle = await _started(again, schedule_id("verify", "nobody"))
    assert await attributes(handle) | {"CompactionReason": "verify"} == await attributes(handle)
    await handle.terminate()
    for kind in SWEEP_KINDS:
        await again.get_schedule_handle(schedule_id(kind, "nobody")).delete()


async def _started(client: Client, schedule: str) -> WorkflowHandle[Any, Any]:
    """The run that a schedule started, once it has."""
    async with asyncio.timeout(60):
        while True:
            actions = (await client.get_schedule_handle(schedule).describe()).info.recent_actions
            if actions and isinstance(actions[0].action, ScheduleActionExecutionStartWorkflow):
                return client.get_workflow_handle(actions[0].action.workflow_id)
