"""Events are numbered in the order of commits, without holes, whoever writes at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import PlanRequest
from durable_context.database import Pool
from durable_context.events import ContextEvent
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.compacting import compact_all
from tests.events import (
    REPORT,
    WAIT,
    Connection,
    all_events,
    check_events_are_what_happened,
    kinds,
    somebody_waits,
)
from tests.turns import exchange, numbered


async def _connected(url: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Connection]:
    """For a transaction that another one must wait for."""
    async for connection in _connected(database_url):
        yield connection


@pytest.fixture
async def watching(database_url: str) -> AsyncIterator[Connection]:
    async for connection in _connected(database_url):
        yield connection


async def test_giving_a_compaction_up_while_it_is_published_is_no_deadlock(
    client: ContextClient,
    pool: Pool,
    connection: Connection,
    other: Connection,
    watching: Connection,
):
    branch = await client.open_branch("c")
    for n in range(8):
        await branch.record_turn(numbered(n))
    plan = await Compactor(pool, ExtractiveSummarizer()).plan(
        PlanRequest(tenant="default", branch_uuid=branch.branch_uuid, policy=CompactionPolicy())
    )
    ending = "update durable_context.compactions set status = $2 where compaction_id = $1"
    lock = "select from durable_context.branches where branch_uuid = $1 for no key update"
    giving_up = other.transaction()
    await giving_up.start()
    await other.execute(ending, plan.compaction_id, "failed")
    async with connection.transaction():
        await connection.execute(lock, branch.branch_uuid)
        async with asyncio.TaskGroup() as both:
            both.create_task(connection.execute(ending, plan.compaction_id, "completed"))
            await somebody_waits(watching)
            both.create_task(asyncio.wait_for(giving_up.commit(), WAIT))
    assert (await kinds(branch))[8:] == [
        "compaction_started",
        "compaction_failed",
        "compaction_completed",
    ]


async def test_writers_of_a_branch_wait_for_each_other_only_while_they_commit(
    client: ContextClient, pool: Pool, connection: Connection
):
    branch = await client.open_branch("c")
    for n in range(8):
        await branch.record_turn(numbered(n))
    plan = await Compactor(pool, ExtractiveSummarizer()).plan(
        PlanRequest(tenant="default", branch_uuid=branch.branch_uuid, policy=CompactionPolicy())
    )
    async with connection.transaction():
        await connection.execute(
            "update durable_context.compactions set status = 'failed' where compaction_id = $1",
            plan.compaction_id,
        )
        await asyncio.wait_for(branch.record_turn(numbered(8)), WAIT)
    assert (await kinds(branch))[8:] == ["compaction_started", "recorded", "compaction_failed"]


async def test_forks_of_forks_in_parallel_wait_for_each_other_in_no_circle(
    client: ContextClient, connection: Connection
):
    root = await client.open_branch("c")
    await root.record_turn(numbered(1))
    grown = [root]
    for generation in range(4):
        forks = [
            branch.fork(f"{generation}.{number}.{twin}")
            for number, branch in enumerate(grown[:4])
            for twin in range(3)
        ]
        writes = [
            branch.record_turn(numbered(generation), on_conflict="append") for branch in grown[:4]
        ]
        made, _ = await asyncio.wait_for(
            asyncio.gather(asyncio.gather(*forks), asyncio.gather(*writes)), WAIT
        )
        grown = [*made, *grown]
    await check_events_are_what_happened(connection)


async def test_a_reader_that_comes_and_goes_misses_nothing_of_concurrent_writers(
    make_client: Callable[..., Any], connection: Connection, pool: Pool
):
    turns = 40
    policy = CompactionPolicy(segment_turns=4)
    clients = [await make_client(policy=policy, max_connections=2) for _ in range(4)]
    reader = clients[0]
    ids = ["one", "two", "three"]
    branches = [await reader.open_branch("c", name) for name in ids]

    async def write(writer: int) -> None:
        for n in range(turns):
            client = clients[writer % len(clients)]
            branch = await client.open_branch("c", ids[(writer + n) % len(ids)])
            messages = numbered(n) if n % 5 else [*numbered(n), *exchange("a", REPORT)]
            await branch.record_turn(messages, on_conflict="append")
            if n % 10 == 9:
                await branch.fork(f"{writer}.{n}")

    async def read(branch: Branch) -> list[ContextEvent]:
        """Three events at a time, each time by somebody who knows the cursor only."""
        seen: list[ContextEvent] = []
        while not seen or seen[-1].kind != "put":
            async for event in branch.events(seen[-1].cursor if seen else 0, follow=True):
                seen.append(event)
                if event.kind == "put" or len(seen) % 3 == 0:
                    break
        return seen

    async def write_all() -> None:
        compacting = compact_all(pool, branches[0].branch_uuid, policy)
        await asyncio.gather(*(write(n) for n in range(8)), compacting)
        await asyncio.gather(*(branch.put_artifact("x", name="the end") for branch in branches))

    *read_by_branch, _ = await asyncio.wait_for(
        asyncio.gather(*(read(branch) for branch in branches), write_all()), 120
    )
    for branch, seen in zip(branches, read_by_branch, strict=True):
        assert [event.cursor for event in seen] == list(range(1, len(seen) + 1))
        assert seen == await all_events(branch)
        recorded = [event.turn_no for event in seen if event.kind == "recorded"]
        assert recorded == [turn.turn_no for turn in await branch.turns()]
    await check_events_are_what_happened(connection)


async def test_a_transaction_that_is_rolled_back_leaves_no_hole(
    client: ContextClient, connection: Connection, other: Connection
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    undone = connection.transaction()
    await undone.start()
    note = "select durable_context.note_event('default', $1, 'over_budget', 1, null, '{}')"
    assert await connection.fetchval(note, branch.branch_uuid) == 2
    writing = asyncio.create_task(branch.record_turn(numbered(2)))
    await somebody_waits(other)
    assert await kinds(branch) == ["recorded"]
    assert not writing.done()
    await undone.rollback()
    await writing
    assert [(event.cursor, event.kind) for event in await all_events(branch)] == [
        (1, "recorded"),
        (2, "recorded"),
    ]


async def test_an_event_that_cannot_be_written_takes_its_turn_with_it(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("c")
    await connection.execute(
        "alter table durable_context.events add constraint one_only check (event_no < 2)"
    )
    await branch.record_turn(numbered(1))
    with pytest.raises(asyncpg.CheckViolationError):
        await branch.record_turn(numbered(2))
    assert [turn.turn_no for turn in await branch.turns()] == [1]
    await connection.execute("alter table durable_context.events drop constraint one_only")
    assert (await branch.record_turn(numbered(2))).turn_no == 2
    await check_events_are_what_happened(connection)
