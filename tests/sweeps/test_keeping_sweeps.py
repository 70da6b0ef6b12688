"""Retention and verification as sweeps: of all tenants, and a check that fails visibly."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from durable_context import ContextClient
from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import DAMAGE_FOUND, SweepCounts, SweepPosition
from durable_context.database import Pool
from durable_context.retention import RetentionPolicy
from durable_context.sweeps.keeping import sweep_retention, sweep_verification
from tests.compacting import compact_once
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import QUICK, record

NO_TIME = timedelta(0)
AT_ONCE = RetentionPolicy(compactions_after=NO_TIME, compactions_kept=1)


@pytest.fixture
def contents(tmp_path: Path) -> ContentStore:
    return ContentStore(tmp_path.as_uri())


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[ContextClient]:
    """Another tenant."""
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as client:
        yield client


async def talk(client: ContextClient, pool: Pool, tenant: str) -> None:
    branch = await client.open_branch("talk")
    await record(branch, 20)
    while await compact_once(pool, branch.branch_uuid, QUICK, tenant):
        pass


async def talks(client: ContextClient, other: ContextClient, pool: Pool) -> None:
    await talk(client, pool, "default")
    await talk(other, pool, "other")


async def test_the_schedule_takes_what_each_tenant_keeps_no_longer(
    client: ContextClient,
    other: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await talks(client, other, pool)
    for each in (client, other):
        await each.set_retention(AT_ONCE)
    async with sweeps.worker(pool, contents=contents):
        await sweeps.schedules.apply(sweeps.settings("retention"))
        result = await sweeps.fired("retention")
    assert result.counts.found["compactions"] == 4
    left = "select tenant, count(*) from durable_context.compactions group by tenant order by 1"
    assert [tuple(row) for row in await connection.fetch(left)] == [("default", 1), ("other", 1)]


async def test_retention_that_is_interrupted_goes_on_with_the_tenant_it_was_at(
    client: ContextClient, other: ContextClient, pool: Pool, contents: ContentStore
) -> None:
    await talks(client, other, pool)
    for each in (client, other):
        await each.set_retention(AT_ONCE)
    told: list[SweepPosition] = []
    position, taken = SweepPosition(), 0
    while not position.is_done:
        before = SweepPosition(after=position.after)
        position = await sweep_retention(pool, contents, None, before, told.append, NO_TIME)
        taken += position.counts.found.get("compactions", 0)
    assert taken == 4
    assert any('"other"' in one.after for one in told)


async def test_one_tenant_s_retention_leaves_others_alone(
    client: ContextClient,
    other: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    contents: ContentStore,
) -> None:
    await talks(client, other, pool)
    for each in (client, other):
        await each.set_retention(AT_ONCE)
    async with sweeps.worker(pool, contents=contents):
        result = await sweeps.sweep("retention", tenant="other")
    assert result.counts.found["compactions"] == 2


async def test_the_schedule_verifies_all_and_succeeds_where_all_is_whole(
    client: ContextClient,
    other: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    contents: ContentStore,
) -> None:
    await talks(client, other, pool)
    async with sweeps.worker(pool, contents=contents):
        await sweeps.schedules.apply(sweeps.settings("verify"))
        result = await sweeps.fired("verify")
    assert result.counts.scanned == 2
    assert (result.counts.found["turns"], result.counts.found["found"]) == (40, 0)


async def test_damage_fails_the_sweep_with_its_figures(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await talk(client, pool, "default")
    async with connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        await connection.execute(
            "update durable_context.turns set digest = 'changed' where turn_no = 3"
        )
    async with sweeps.worker(pool, contents=contents):
        await sweeps.schedules.apply(sweeps.settings())
        await sweeps.schedules.trigger("verify")
        with pytest.raises(WorkflowFailureError) as failed:
            await sweeps.fired("verify")
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError) and cause.type == DAMAGE_FOUND
    counts = SweepCounts.model_validate(cause.details[0])
    assert (counts.scanned, counts.found["errors"]) == (1, 1)
    [verify] = [one for one in await sweeps.schedules.all() if one.kind == "verify"]
    assert verify.last_status == "failed"
    assert verify.last_error and "not as it was" in verify.last_error


async def test_verification_goes_on_from_its_position(
    client: ContextClient, pool: Pool, contents: ContentStore
) -> None:
    for number in range(50):
        await record(await client.open_branch(f"talk-{number}"), 1)
    position, calls = SweepPosition(), 0
    while not position.is_done:
        position = await sweep_verification(
            pool, contents, None, position, lambda told: None, NO_TIME
        )
        calls += 1
    assert calls > 2
    assert (position.counts.scanned, position.counts.found["turns"]) == (50, 50)
