"""Events are read from a cursor, followed, and noted where no row tells them."""

import asyncio
from typing import Any

import pytest

from durable_context import ContextClient
from durable_context.database import Pool, create_pool
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.events import KEPT, EventStore, NotedEvent, PendingEvents
from tests.events import WAIT, Connection, all_events, kinds
from tests.turns import numbered


@pytest.fixture
def store(pool: Pool) -> EventStore:
    return EventStore(pool, "default")


async def test_who_follows_gets_what_is_yet_to_happen(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    following = branch.events(follow=True)
    assert (await anext(following)).cursor == 1
    coming = asyncio.ensure_future(anext(following))
    await branch.record_turn(numbered(2))
    event = await asyncio.wait_for(coming, WAIT)
    assert (event.cursor, event.turn_no) == (2, 2)


async def test_a_reader_takes_more_than_a_page_in_order(client: ContextClient, store: EventStore):
    branch = await client.open_branch("c")
    pending = PendingEvents()
    for n in range(5 * KEPT):
        pending.add(branch.branch_uuid, "over_budget", 0, {"n": n})
        if n % KEPT == KEPT - 1:
            await pending.flush(store)
    events = await all_events(branch)
    assert [event.data["n"] for event in events] == list(range(5 * KEPT))
    assert [event.cursor for event in await store.read(branch.branch_uuid, 7, 2)] == [8, 9]


@pytest.mark.parametrize("after", [-1, 2**63, True, "1", 1.0, None])
async def test_what_is_no_cursor_is_refused(client: ContextClient, after: Any):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidArgument, match=f"after={after!r}; allowed are 0, for all events"):
        await anext(branch.events(after))


@pytest.mark.parametrize("follow", [False, True])
async def test_a_cursor_beyond_the_newest_event_is_of_another_branch(
    client: ContextClient, follow: bool
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    assert [event async for event in branch.events(1)] == []
    with pytest.raises(InvalidArgument, match="after=2 is beyond the newest event"):
        await anext(branch.events(2, follow=follow))


async def test_events_of_another_tenant_are_not_there(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    theirs = EventStore(pool, "other")
    with pytest.raises(UnknownBranch):
        await theirs.read(branch.branch_uuid)
    with pytest.raises(UnknownBranch):
        await theirs.note(branch.branch_uuid, "compaction_skipped")
    assert await kinds(branch) == ["recorded"]


async def test_reading_uses_the_index(
    client: ContextClient, connection: Connection, store: EventStore
):
    noted = [NotedEvent("over_budget", 0, {})] * 1000
    for name in ("a", "b"):
        branch = await client.open_branch("c", name)
        await store.note_all(branch.branch_uuid, noted)
    await connection.execute("analyze durable_context.events")
    plan = await connection.fetch(
        "explain (analyze, costs off) select * from durable_context.events"
        " where tenant = 'default' and branch_uuid = $1 and event_no > 990"
        " order by event_no limit 5",
        branch.branch_uuid,
    )
    text = "\n".join(row[0] for row in plan)
    assert "Index Scan using events_pkey" in text and "Sort" not in text, text


async def test_what_could_not_be_written_is_written_later(
    client: ContextClient, store: EventStore, database_url: str
):
    branch = await client.open_branch("c")
    closed = await create_pool(database_url)
    await closed.close()
    pending = PendingEvents()
    for n in range(KEPT):
        pending.add(branch.branch_uuid, "over_budget", 0, {"n": n})
    await pending.flush(EventStore(closed, "default"))
    pending.add(branch.branch_uuid, "over_budget", 0, {"n": KEPT})
    for _ in range(2):
        await pending.flush(store, branch.branch_uuid)
    events = await all_events(branch)
    assert [event.data["n"] for event in events] == list(range(1, KEPT + 1))
