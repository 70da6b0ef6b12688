"""`durable-context schedules`, run as users run it."""

import contextlib
import re
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from durable_context import ContextClient
from durable_context.contracts import COMPACTION_TASK_QUEUE
from durable_context.contracts.sweep import SWEEP_KINDS, schedule_id
from durable_context.database import Pool
from tests.cli.running import Run
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import record
from worker.free_ports import LOOPBACK, free_ports


@pytest.fixture
async def temporal_option(temporal: Client) -> AsyncIterator[tuple[str, str]]:
    """The schedules of the default task queue, which begin and end with the test."""
    await _delete_schedules(temporal)
    yield ("--temporal", temporal.service_client.config.target_host)
    await _delete_schedules(temporal)


async def _delete_schedules(temporal: Client) -> None:
    for kind in SWEEP_KINDS:
        with contextlib.suppress(RPCError):
            await temporal.get_schedule_handle(schedule_id(kind)).delete()


async def test_they_are_applied_listed_paused_and_resumed(
    durable_context: Run, temporal_option: tuple[str, str]
) -> None:
    missing = await durable_context("schedules", *temporal_option)
    assert missing.code == 0 and "schedules apply" in missing.out
    applied = await durable_context("schedules", "apply", *temporal_option, "--json")
    assert [one["change"] for one in applied.figures["applied"]] == ["created"] * 5
    assert (await durable_context("schedules", "pause", "merge", *temporal_option)).code == 0
    again = await durable_context("schedules", "apply", *temporal_option)
    assert "durable-context-merge: unchanged; kept as an operator set it: pause, note" in again.out
    listed = await durable_context("schedules", "list", *temporal_option, "--json")
    found = {one["kind"]: one for one in listed.figures["schedules"]}
    assert [kind for kind, one in found.items() if one["paused"]] == ["merge", "upgrade"]
    assert found["catch-up"]["every"] == "PT5M"
    assert (await durable_context("schedules", "resume", "merge", *temporal_option)).code == 0
    shown = await durable_context("schedules", *temporal_option, "--iso")
    assert re.search(r"catch-up +5 min +active +- +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown.out)
    assert re.search(r"upgrade +1 d +paused", shown.out)


async def test_a_triggered_sweep_is_waited_for(
    durable_context: Run,
    temporal_option: tuple[str, str],
    temporal: Client,
    client: ContextClient,
    pool: Pool,
) -> None:
    await record(await client.open_branch("talk"), 3)
    await durable_context("schedules", "apply", *temporal_option)
    async with Sweeps(temporal, COMPACTION_TASK_QUEUE).worker(pool):
        ended = await durable_context("schedules", "trigger", "merge", "--wait", *temporal_option)
        assert (ended.code, ended.out.strip()) == (0, "merge: completed: scanned 1")
        as_json = await durable_context(
            *("schedules", "trigger", "upgrade", "--wait", "--json"), *temporal_option
        )
    assert as_json.figures["last_status"] == "completed"
    assert as_json.figures["last_result"]["counts"]["scanned"] == 1


async def test_what_cannot_be_done_is_said(
    durable_context: Run, temporal_option: tuple[str, str]
) -> None:
    unknown = await durable_context("schedules", "trigger", "nightly", *temporal_option)
    assert unknown.code == 2 and "catch-up" in unknown.errors
    missing = await durable_context("schedules", "trigger", "merge", *temporal_option)
    assert missing.code == 2 and "apply the schedules first" in missing.errors
    [port] = free_ports(1)
    away = await durable_context("schedules", "--temporal", f"{LOOPBACK}:{port}")
    assert away.code == 1 and "Temporal could not be asked" in away.errors
