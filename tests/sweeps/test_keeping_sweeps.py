"""Retention and verification as sweeps: of all tenants, and a check that fails visibly."""

from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from durable_context import Branch, ContextClient
from durable_context.artifacts.contents import ContentStore
from durable_context.contracts.sweep import DAMAGE_FOUND, SweepCounts, SweepPosition
from durable_context.database import Pool
from durable_context.retention import RetentionPolicy
from durable_context.sweeps.keeping import sweep_retention, sweep_verification
from durable_context.sweeps.sweeping import ONE_RUN
from tests.compacting import compact_once
from tests.sweeps.sweeping import HastySettings, Sweeps
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
    assert any(one.after.startswith(b64encode(b"other").decode()) for one in told)


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


async def several(client: ContextClient, count: int = 7) -> list[Branch]:
    """Branches of two turns, in the order in which sweeps come to them."""
    branches = [await client.open_branch(f"talk-{number}") for number in range(count)]
    for branch in branches:
        await record(branch, 2)
    return sorted(branches, key=lambda branch: branch.branch_uuid)


async def damage(
    connection: "asyncpg.Connection[asyncpg.Record]", statement: str, branch_uuid: UUID
) -> None:
    async with connection.transaction():
        await connection.execute("set local session_replication_role = replica")
        assert not (await connection.execute(statement, branch_uuid)).endswith(" 0")


WITHOUT_A_COUNT = (
    "update durable_context.summaries set to_turn = 2147483647"
    " where branch_uuid = $1 and level = 0 and from_turn = 1"
)


async def test_a_branch_that_cannot_be_read_is_damage_and_ends_no_verification(
    client: ContextClient,
    pool: Pool,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branches = await several(client)
    first = branches[0].branch_uuid
    await record(branches[0], 18)
    while await compact_once(pool, first, QUICK):
        pass
    await damage(connection, WITHOUT_A_COUNT, first)
    position = await sweep_verification(
        pool, contents, None, SweepPosition(), lambda told: None, ONE_RUN
    )
    counts = position.counts
    assert position.is_done
    assert (counts.scanned, counts.found["turns"], counts.found["errors"]) == (7, 12, 1)
    told = "select data->>'check' from durable_context.events where kind = 'damaged'"
    assert [row[0] for row in await connection.fetch(told)] == ["unreadable"]


async def test_contents_that_cannot_be_had_fail_their_branch_and_are_no_damage(
    database_url: str, client: ContextClient, pool: Pool, tmp_path: Path
) -> None:
    await several(client, 1)
    async with await ContextClient.connect(
        database_url, temporal=None, artifact_url=tmp_path.as_uri(), inline_limit=1
    ) as storing:
        await (await storing.open_branch("talk-0")).put_artifact("a log", name="log")
    nowhere = ContentStore("file:///dev/null/nowhere")
    position = await sweep_verification(
        pool, nowhere, None, SweepPosition(), lambda told: None, ONE_RUN
    )
    assert position.is_done
    assert (position.counts.failed, position.counts.scanned) == (1, 1)
    assert position.counts.found["errors"] == 0


async def test_verification_goes_on_behind_damage_where_its_time_was_over(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    first = (await several(client))[0].branch_uuid
    await damage(
        connection,
        "update durable_context.turns set digest = 'changed' where branch_uuid = $1",
        first,
    )
    settings = HastySettings.model_validate(sweeps.settings().model_dump())
    async with sweeps.worker(pool, contents=contents):
        await sweeps.schedules.apply(settings)
        await sweeps.schedules.trigger("verify")
        with pytest.raises(WorkflowFailureError) as failed:
            await sweeps.fired("verify")
        await sweeps.schedules.trigger("verify")
        second = await sweeps.fired("verify", nth=1)
        await sweeps.schedules.trigger("verify")
        third = await sweeps.fired("verify", nth=2)
        await sweeps.schedules.trigger("verify")
        with pytest.raises(WorkflowFailureError):
            await sweeps.fired("verify", nth=3)
    cause = failed.value.cause
    assert isinstance(cause, ApplicationError)
    assert SweepCounts.model_validate(cause.details[0]).scanned == 5
    assert (second.counts.scanned, second.left_at) == (2, "unowned")
    assert (third.counts.scanned, third.left_at) == (0, "")


async def test_a_step_ends_with_the_time_of_its_sweep(
    client: ContextClient, pool: Pool, sweeps: Sweeps, contents: ContentStore
) -> None:
    """However long a worker lets steps go on."""
    await several(client)
    async with sweeps.worker(pool, contents=contents, lasts=timedelta(minutes=1)):
        result = await sweeps.sweep("verify", longest=NO_TIME)
    assert (result.counts.scanned, bool(result.left_at)) == (5, True)


async def test_a_tenant_whose_retention_cannot_be_read_ends_no_sweep(
    client: ContextClient,
    other: ContextClient,
    pool: Pool,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await talks(client, other, pool)
    for each in (client, other):
        await each.set_retention(AT_ONCE)
    await connection.execute(
        "update durable_context.tenants set retention = '[5]' where tenant = 'default'"
    )
    position = await sweep_retention(
        pool, contents, None, SweepPosition(), lambda told: None, ONE_RUN
    )
    assert (position.is_done, position.counts.failed) == (True, 1)
    assert position.counts.found["compactions"] == 2


async def test_rows_that_cannot_be_taken_are_passed_over_and_told(
    client: ContextClient,
    pool: Pool,
    contents: ContentStore,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    names = [branch.branch_uuid for branch in await several(client, 3)]
    await client.set_retention(RetentionPolicy(conversations_kept=0))
    await connection.execute(
        f"create function public.refuse() returns trigger language plpgsql as $$ begin"
        f" if old.branch_uuid = '{names[1]}' then raise exception 'no'; end if; return old;"
        f" end $$; create trigger refused before delete on durable_context.branches"
        f" for each row execute function public.refuse()"
    )
    position = await sweep_retention(
        pool, contents, None, SweepPosition(), lambda told: None, ONE_RUN
    )
    assert (position.is_done, position.counts.failed) == (True, 1)
    left = await connection.fetch("select branch_uuid from durable_context.branches")
    assert [row[0] for row in left] == [names[1]]


@pytest.mark.parametrize("tenant", ["🦜" * 125, '"' * 500, "\x01" * 500])
async def test_a_place_in_retention_is_small_whatever_tenants_are_called(
    tenant: str, database_url: str, pool: Pool, contents: ContentStore
) -> None:
    async with await ContextClient.connect(database_url, temporal=None, tenant=tenant) as client:
        await talk(client, pool, tenant)
        await client.set_retention(RetentionPolicy(compactions_after=NO_TIME, compactions_kept=1))
    told: list[SweepPosition] = []
    await sweep_retention(pool, contents, None, SweepPosition(), told.append, ONE_RUN)
    assert len(told) > 1
    assert max(len(one.model_dump_json().encode()) for one in told) < 1_200
