"""The catch-up sweep: turns that nobody compacted, whatever became of the hints."""

import asyncio
from datetime import timedelta

import asyncpg

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.contracts.sweep import SweepPosition
from durable_context.database import Pool
from durable_context.schedules import ScheduleSettings
from durable_context.sweeps.lagging import LaggingBranches
from durable_context.sweeps.paging import DueBranch
from durable_context.sweeps.starting import Outcome, Surviving
from durable_context.sweeps.sweeping import sweep_branches
from tests.compacting import compact_all
from tests.exports import exported
from tests.sweeps.sweeping import Sweeps
from tests.turns import exchange, numbered
from tests.workflows.orchestration import QUICK, record
from worker.free_ports import LOOPBACK, free_ports

DUE = QUICK.segment_turns + QUICK.keep_raw_turns


async def lagging(client: ContextClient, name: str = "lagging") -> Branch:
    """Recorded without a hint."""
    branch = await client.open_branch(name)
    await record(branch, DUE)
    return branch


async def checkpoint_turn(branch: Branch) -> int:
    checkpoint = (await branch.inspect()).checkpoint
    return checkpoint.turn_no if checkpoint else 0


async def test_the_schedule_compacts_what_no_hint_told_of(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    branch = await lagging(client)
    await record(await client.open_branch("short"), DUE - 1)
    async with sweeps.worker(pool):
        await sweeps.schedules.apply(sweeps.settings("catch-up"))
        result = await sweeps.fired("catch-up")
        await sweeps.compacted(branch)
    assert (result.counts.scanned, result.counts.due, result.counts.started) == (2, 1, 1)
    assert await checkpoint_turn(branch) == QUICK.segment_turns
    [compaction] = await branch.compactions()
    assert compaction.reason == "sweep"


async def test_turns_of_an_outage_are_compacted_after_it(
    database_url: str, pool: Pool, sweeps: Sweeps
) -> None:
    [port] = free_ports(1)
    async with await ContextClient.connect(
        database_url, temporal=f"{LOOPBACK}:{port}", policy=QUICK
    ) as client:
        branch = await lagging(client)
        async with sweeps.worker(pool):
            result = await sweeps.sweep("catch-up")
            await sweeps.compacted(branch)
            again = await sweeps.sweep("catch-up")
        assert await checkpoint_turn(branch) == QUICK.segment_turns
    assert result.counts.started == 1
    assert again.counts.due == 0


async def test_an_imported_branch_is_compacted(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    await lagging(client)
    lines = await exported(client, "lagging")
    copies = [
        await client.import_branch(lines, conversation_id=f"copy-{number}") for number in range(3)
    ]
    async with sweeps.worker(pool):
        result = await sweeps.sweep("catch-up")
        for copy in copies:
            await sweeps.compacted(copy)
            assert await checkpoint_turn(copy) == QUICK.segment_turns
    assert result.counts.started == 4


async def test_a_branch_that_was_used_just_now_is_left_to_its_own_hints(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    await lagging(client)
    async with sweeps.worker(pool):
        result = await sweeps.sweep("catch-up", grace=timedelta(minutes=1))
    assert (result.counts.scanned, result.counts.due) == (1, 0)


async def test_a_paused_branch_and_a_paused_tenant_are_left_alone(
    client: ContextClient, pool: Pool, sweeps: Sweeps, database_url: str
) -> None:
    branch = await lagging(client)
    await branch.pause("an audit")
    async with await ContextClient.connect(database_url, temporal=None, tenant="quiet") as quiet:
        await lagging(quiet)
        await quiet.pause("an audit")
        async with sweeps.worker(pool):
            result = await sweeps.sweep("catch-up")
            assert (result.counts.scanned, result.counts.due) == (2, 0)
            await branch.resume()
            await quiet.resume()
            resumed = await sweeps.sweep("catch-up")
    assert resumed.counts.started == 2


async def test_only_the_tenant_that_is_named_is_swept(
    client: ContextClient, pool: Pool, sweeps: Sweeps, database_url: str
) -> None:
    mine = await lagging(client)
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as other:
        theirs = await lagging(other)
        async with sweeps.worker(pool):
            result = await sweeps.sweep("catch-up", tenant="other")
            await sweeps.compacted(theirs)
        assert await checkpoint_turn(theirs) == QUICK.segment_turns
    assert result.counts.started == 1
    assert await checkpoint_turn(mine) == 0


async def test_small_turns_of_an_open_run_that_stay_raw_start_nothing(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    """The database takes the branch for one that lags; a close look tells that nothing is due."""
    branch = await client.open_branch("run")
    await branch.record_turn([*numbered(1)[:1], *exchange("c0", "ok")], continues=True)
    for step in range(1, 2 * DUE):
        await branch.record_turn(exchange(f"c{step}", "ok"), continues=True)
    async with sweeps.worker(pool):
        result = await sweeps.sweep("catch-up")
    assert (result.counts.due, result.counts.skipped, result.counts.started) == (1, 1, 0)


async def test_what_was_published_and_not_indexed_is_indexed(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branch = await lagging(client)
    await compact_all(pool, branch.branch_uuid, QUICK)
    await connection.execute("delete from durable_context.postings")
    await connection.execute("delete from durable_context.indexed_documents")
    await connection.execute("update durable_context.branches set indexed_publication = -1")
    async with sweeps.worker(pool):
        result = await sweeps.sweep("catch-up")
        await sweeps.compacted(branch)
        again = await sweeps.sweep("catch-up")
    assert result.counts.started == 1
    assert again.counts.due == 0
    assert await connection.fetchval("select count(*) from durable_context.postings") > 0


async def test_two_sweeps_at_once_make_each_checkpoint_once(
    client: ContextClient, pool: Pool, sweeps: Sweeps
) -> None:
    branches = [await lagging(client, f"talk-{number}") for number in range(20)]
    async with sweeps.worker(pool):
        first, second = await asyncio.gather(sweeps.sweep("catch-up"), sweeps.sweep("catch-up"))
        for branch in branches:
            await sweeps.compacted(branch)
    assert first.counts.failed == second.counts.failed == 0
    assert first.counts.started + second.counts.started >= len(branches)
    for branch in branches:
        assert [one.turn_no for one in await branch.checkpoints()] == [QUICK.segment_turns]


def test_the_policy_travels_whole_in_less_than_2_kb() -> None:
    policy = CompactionPolicy(fan_out=3)
    settings = ScheduleSettings(policy=policy)
    assert settings.request("merge", timedelta(hours=1)).policy == policy
    assert len(settings.request("merge", timedelta(hours=1)).model_dump_json()) < 2048


async def test_a_branch_that_is_always_in_use_is_caught_up_with(
    client: ContextClient,
    pool: Pool,
    sweeps: Sweeps,
    connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    branch = await lagging(client)
    grace = timedelta(minutes=1)
    async with sweeps.worker(pool):
        assert (await sweeps.sweep("catch-up", grace=grace)).counts.due == 0
        async with connection.transaction():
            await connection.execute("set local session_replication_role = replica")
            await connection.execute(
                "update durable_context.turns set recorded_at = recorded_at - interval '2 minutes'"
            )
        await record(branch, 1)
        assert (await sweeps.sweep("catch-up", grace=grace)).counts.started == 1
        await sweeps.compacted(branch)
    assert await checkpoint_turn(branch) == QUICK.segment_turns


async def test_a_branch_that_cannot_be_read_fails_alone(client: ContextClient, pool: Pool) -> None:
    broken = await lagging(client, "broken")
    await lagging(client, "whole")

    async def start(branch: DueBranch) -> Outcome:
        if branch.branch_uuid == broken.branch_uuid:
            raise TypeError("no ledger")
        return "started"

    pages = LaggingBranches(pool, None, QUICK, timedelta(0))
    position = await sweep_branches(
        pages, Surviving(start, pool), SweepPosition(), lambda told: None
    )
    assert position.is_done
    assert (position.counts.due, position.counts.started, position.counts.failed) == (2, 1, 1)
