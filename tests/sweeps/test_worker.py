"""`python -m worker` and the schedules: it makes them, and leaves them as operators set them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from durable_context import ContextClient
from durable_context.contracts import COMPACTION_TASK_QUEUE
from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import QUICK, record
from worker.settings import Settings, with_temporal
from worker.worker_process import WorkerProcess


@pytest.fixture
async def namespace(temporal: Client) -> str:
    """Of its own: the default task queue holds what other tests left there."""
    name = f"sweeps-{uuid4().hex}"
    await temporal.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name, workflow_execution_retention_period=Duration(seconds=86_400)
        )
    )
    return name


@pytest.fixture
async def production(temporal_address: str, namespace: str) -> AsyncIterator[Sweeps]:
    """Those of the default task queue, which end with the test."""
    temporal = await Client.connect(
        temporal_address, namespace=namespace, data_converter=pydantic_data_converter
    )
    async with asyncio.timeout(60):  # the server's frontends learn of it one after the other
        while True:
            with contextlib.suppress(RPCError):
                await temporal.count_workflows("")
                break
    yield Sweeps(temporal, COMPACTION_TASK_QUEUE)
    for kind in SWEEP_KINDS:
        with contextlib.suppress(RPCError):
            await temporal.get_schedule_handle(schedule_id(kind)).delete()


async def test_an_operator_s_pause_survives_a_restart_of_the_worker(
    client: ContextClient,
    production: Sweeps,
    database_url: str,
    temporal_address: str,
    namespace: str,
    tmp_path: Path,
) -> None:
    branch = await client.open_branch("lagging")
    await record(branch, QUICK.segment_turns + QUICK.keep_raw_turns)
    environment = with_temporal(os.environ, temporal_address, namespace) | {
        "DURABLE_CONTEXT_DATABASE_URL": database_url,
        "DURABLE_CONTEXT_CATCH_UP_SECONDS": "1",
        "DURABLE_CONTEXT_GRACE_SECONDS": "0",
    }
    async with WorkerProcess(tmp_path, environment):
        assert (await production.fired("catch-up")).counts.started == 1
        await production.compacted(branch)
        await production.schedules.pause("catch-up", "an incident")
    async with WorkerProcess(tmp_path, environment):
        found = {one.kind: one for one in await production.schedules.all()}
    assert (found["catch-up"].paused, found["catch-up"].note) == (True, "an incident")
    assert [kind for kind, one in found.items() if one.paused] == ["catch-up", "upgrade"]


def test_schedules_can_be_left_to_somebody_else() -> None:
    environment = {"DURABLE_CONTEXT_DATABASE_URL": "postgresql://localhost/any"}
    assert Settings.from_env(environment).schedules is not None
    environment["DURABLE_CONTEXT_SCHEDULES"] = "off"
    assert Settings.from_env(environment).schedules is None
