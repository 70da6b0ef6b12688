"""Sweeps on the real server. Schedules of a test end with it."""

import contextlib
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from tests.sweeps.sweeping import Sweeps


@pytest.fixture
async def sweeps(temporal: Client) -> AsyncIterator[Sweeps]:
    task_queue = f"test-{uuid4().hex}"
    yield Sweeps(temporal, task_queue)
    for kind in SWEEP_KINDS:
        with contextlib.suppress(RPCError):
            await temporal.get_schedule_handle(schedule_id(kind, task_queue)).delete()
