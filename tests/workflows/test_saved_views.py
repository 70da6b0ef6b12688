"""Saved views of docs/temporal-ui.md, run as they stand there by the server."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.rebuild_calls import start_rebuild
from durable_context.compaction.requests import CompactionRequests, register_search_attributes
from durable_context.contracts import CompactionRequest, compaction_workflow_id
from durable_context.contracts.rebuild import RebuildRequest, rebuild_workflow_id
from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from durable_context.database import Pool
from durable_context.errors import CompactionFailed
from durable_context.policy import CompactionPolicy
from durable_context.schedules import ScheduleSettings
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.sweeps.schedule_calls import ScheduleCalls
from tests.own_namespace import own_namespace
from tests.workflows.orchestration import PATIENCE
from workflows.compaction import Compaction

PAGE = Path(__file__).parents[2] / "docs" / "temporal-ui.md"
NEWER = "TemporalReportedProblems"
"""Which servers came to know later, as the page says."""
QUEUE, COMPACTED = "nobody", "compacted"
POLICY = CompactionPolicy(expose_ids=True)
BRANCH = UUID("00000000-0000-4000-8000-000000000000")
TARGET: dict[str, Any] = {
    "tenant": "default",
    "branch_uuid": BRANCH,
    "label": "brightwater/main",
    "conversation": "brightwater",
}
COMPACTION, REBUILD = compaction_workflow_id(BRANCH), rebuild_workflow_id(BRANCH)
SWEEP = "nobody-catch-up"
FINDS = {
    "Failed today": [COMPACTION],
    "By reason, here what people and programs asked for": [COMPACTION],
    "This conversation, where ids are exposed": [COMPACTION, REBUILD],
    "This branch, where ids are exposed": [COMPACTION, REBUILD],
    "This branch, where they are not": [COMPACTION, REBUILD],
    "This tenant, where ids are exposed": [REBUILD],
    "Sweeps": [SWEEP],
    "Open for more than an hour": [],
    "Wedged: the worker cannot go on with them, mostly because its code does not fit their"
    " history": [],
}


def views() -> dict[str, str]:
    """By what stands above them."""
    section = PAGE.read_text().partition("## Saved views")[2].partition("\n## ")[0]
    found = re.findall(r"\n\n([^`]+?):\n\n```text\n(.+?)\n```", section, re.DOTALL)
    return {" ".join(name.split()): query for name, query in found}


def test_each_view_of_the_page_is_run() -> None:
    assert set(views()) == set(FINDS)


async def test_each_view_finds_what_it_is_named_for(temporal_address: str, pool: Pool) -> None:
    client = await own_namespace(temporal_address, "views")
    await register_search_attributes(client)
    await _fail(client, pool)
    rebuild = RebuildRequest(**TARGET, policy=POLICY, reason="upgrade")
    assert await start_rebuild(client, rebuild, QUEUE)
    schedules = ScheduleCalls(client, QUEUE)
    await schedules.apply(ScheduleSettings(policy=POLICY))
    await schedules.trigger("catch-up")
    known = await _known_names(client)
    for name, query in views().items():
        if NEWER in query and NEWER not in known:
            continue
        await _until_found(client, _at_present(query), FINDS[name])
    for kind in SWEEP_KINDS:
        await client.get_schedule_handle(schedule_id(kind, QUEUE)).delete()


async def _known_names(client: Client) -> set[str]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    known = await client.operator_service.list_search_attributes(request)
    return {*known.system_attributes, *known.custom_attributes}


async def _fail(client: Client, pool: Pool) -> None:
    """The compaction of a branch that is not there."""
    activities = CompactionActivities(Compactor(pool, ExtractiveSummarizer()))
    request = CompactionRequest(**TARGET, policy=POLICY, reason="request")
    requests = CompactionRequests(client, task_queue=COMPACTED)
    async with Worker(
        client, task_queue=COMPACTED, workflows=[Compaction], activities=[activities.plan]
    ):
        with pytest.raises(CompactionFailed, match="UnknownBranch"):
            await requests.compact_now(request, PATIENCE)


async def _until_found(client: Client, query: str, expected: list[str]) -> None:
    """The server lists runs a moment after they begin or end."""
    found: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while True:
                runs = [run.id async for run in client.list_workflows(query)]
                found = sorted(re.sub(r"-\d{4}-\d\d-\d\dT.*", "", name) for name in runs)
                if found == expected:
                    return
    except TimeoutError:
        assert found == expected, query


def _at_present(query: str) -> str:
    """With other times, as the page asks for: since yesterday, before the last hour."""
    now = datetime.now(UTC)
    for sign, ago in ((">", timedelta(days=1)), ("<", timedelta(hours=1))):
        moment = (now - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
        query = re.sub(rf'{sign} "\d{{4}}-[^"]+"', f'{sign} "{moment}"', query)
    return query
