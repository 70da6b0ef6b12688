"""Events: one for every action, with its figures and without its content."""

from collections import Counter
from typing import get_args

import asyncpg
import pytest

from durable_context import Budget, CompactionPolicy, ContextClient
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.draft_store import DraftStore
from durable_context.compaction.store import CompactionStore, RunId
from durable_context.contracts import NodeRange, PlanRequest
from durable_context.database import Pool
from durable_context.events import KEPT, EventKind, EventStore
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.compacting import compact_all
from tests.events import REPORT, Connection, all_events, check_events_are_what_happened, kinds
from tests.turns import chat, exchange, numbered


async def test_kinds_are_the_same_in_python_and_in_the_database(connection: Connection):
    check = await connection.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'events_kind_check'"
    )
    assert set(check.split("'")[1::2]) == set(get_args(EventKind))


async def test_a_recorded_turn_is_one_event_with_its_figures(client: ContextClient):
    branch = await client.open_branch("c", "b")
    turn = await branch.record_turn(numbered(1), turn_key="k", outcome="failed")
    await branch.record_turn(numbered(1), turn_key="k", outcome="failed")
    [event] = await all_events(branch)
    assert (event.conversation_id, event.branch_id) == ("c", "b")
    assert (event.cursor, event.kind, event.turn_no) == (1, "recorded", 1)
    assert event.at >= turn.recorded_at
    assert event.data == {
        "token_count": turn.token_count,
        "stored_tokens": turn.token_count,
        "outcome": "failed",
        "continues": False,
        "artifacts": 0,
    }


async def test_a_prompt_is_an_event_of_the_turn_it_led_to(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    prepared = await branch.prepare("and now?", budget=Budget(max_tokens=2000, instructions="Hi."))
    assert prepared
    await branch.record_turn(chat("and now?", "soon"), prepared=prepared)
    assert await kinds(branch) == ["recorded", "prepared", "recorded"]
    event = (await all_events(branch))[1]
    assert event.turn_no == 2
    assert event.data["token_count"] == prepared.token_count
    assert event.data["head_turn"] == 1
    assert event.data["reductions"] == len(prepared.manifest.reductions)
    tokens = Counter[str]()
    for block in prepared.manifest.blocks:
        tokens[block.kind] += block.token_count
    assert event.data["blocks"] == tokens


async def test_an_offloaded_result_and_a_named_artifact_are_events_without_their_content(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": "Read it"}, *exchange("a", REPORT)])
    artifact = await branch.put_artifact(REPORT, name="report.txt")
    recorded, offloaded, put = await all_events(branch)
    assert (recorded.kind, recorded.data["artifacts"]) == ("recorded", 1)
    assert recorded.data["stored_tokens"] < recorded.data["token_count"]
    [brought, _] = await branch.artifacts()
    assert (offloaded.kind, offloaded.turn_no) == ("offloaded", 1)
    assert offloaded.data["handle"] == brought.handle
    assert offloaded.data["size"] == len(REPORT)
    assert (put.kind, put.turn_no) == ("put", 1)
    assert put.data == {
        "handle": artifact.handle,
        "source": "put",
        "name": "report.txt",
        "version": 1,
        "media_type": artifact.media_type,
        "size": artifact.size,
        "token_count": artifact.token_count,
    }
    rows = await connection.fetch("select e::text from durable_context.events e")
    assert not any("pressure" in row[0] for row in rows)


async def test_a_refused_prompt_writes_nothing_until_something_is_written(
    client: ContextClient, connection: Connection
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    refused = await branch.prepare("hello", budget=Budget(max_tokens=5))
    assert not refused
    assert await connection.fetchval("select count(*) from durable_context.events") == 1
    await branch.record_turn(numbered(2))
    [event] = [event for event in await all_events(branch) if event.kind == "over_budget"]
    assert event.turn_no == 1
    assert (event.data["limit"], event.data["smallest"]) == (5, refused.smallest)
    await branch.record_turn(numbered(3))
    assert (await kinds(branch)).count("over_budget") == 1


async def test_a_refused_prompt_is_written_when_the_client_closes(
    client: ContextClient, database_url: str
):
    async with await ContextClient.connect(database_url, temporal=None) as leaving:
        branch = await leaving.open_branch("c")
        for _ in range(KEPT + 5):
            await branch.prepare("hello", budget=Budget(max_tokens=1))
    assert await kinds(await client.open_branch("c")) == ["over_budget"] * KEPT


async def test_a_compaction_is_started_and_completed_once(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    for n in range(16):
        await branch.record_turn(numbered(n))
    assert await compact_all(pool, branch.branch_uuid) == 2
    events = [event for event in await all_events(branch) if event.cursor > 16]
    told = [event for event in events if event.kind != "compaction_skipped"]
    assert [event.kind for event in told] == ["compaction_started", "compaction_completed"] * 2
    compactions = (await branch.compactions())[::-1]
    for started, completed, compaction in zip(told[::2], told[1::2], compactions, strict=True):
        assert started.data["compaction_id"] == str(compaction.compaction_id)
        assert started.turn_no == completed.turn_no == compaction.to_turn
        assert completed.data == {
            "compaction_id": str(compaction.compaction_id),
            "from_turn": compaction.from_turn,
            "to_turn": compaction.to_turn,
            "level": compaction.level,
            "reason": compaction.reason,
            "attempts": compaction.attempts,
            "recipe": compaction.recipe,
            "tokens_before": compaction.tokens_before,
            "tokens_after": compaction.tokens_after,
        }


async def test_a_compaction_that_is_given_up_or_left_behind_has_failed_once(
    client: ContextClient, pool: Pool, connection: Connection
):
    branch = await client.open_branch("c")
    for n in range(8):
        await branch.record_turn(numbered(n))
    policy = CompactionPolicy()
    target = {"tenant": "default", "branch_uuid": branch.branch_uuid}
    request = PlanRequest(**target, policy=policy)
    compactor = Compactor(pool, ExtractiveSummarizer())
    first, joined = await compactor.plan(request), await compactor.plan(request)
    assert first.compaction_id is not None and first.compaction_id == joined.compaction_id
    for _ in range(2):
        await DraftStore(pool, **target).fail(first.compaction_id, "x" * 5000)
    await compactor.plan(request)
    other = NodeRange(level=0, from_turn=1, to_turn=5)
    await CompactionStore(pool, **target).join_compaction(other, 1, "request", RunId())
    await connection.execute("update durable_context.compactions set status = status")
    events = (await all_events(branch))[8:]
    assert [event.kind for event in events] == [
        "compaction_started",
        "compaction_failed",
        "compaction_started",
        "compaction_failed",
        "compaction_started",
    ]
    assert events[1].data["error"] == "x" * 1000
    assert "left behind" in events[3].data["error"]
    await check_events_are_what_happened(connection)


async def test_a_look_that_found_nothing_due_can_be_noted(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    await EventStore(pool, "default").note(
        branch.branch_uuid, "compaction_skipped", 0, {"reason": "request"}
    )
    [event] = await all_events(branch)
    assert (event.kind, event.turn_no) == ("compaction_skipped", 0)
    assert event.data == {"reason": "request"}


async def test_a_fork_is_an_event_of_parent_and_child(client: ContextClient):
    branch = await client.open_branch("c")
    for n in range(3):
        await branch.record_turn(numbered(n))
    child = await branch.fork("child", at_turn=2)
    await branch.fork("child", at_turn=2)
    event = (await all_events(branch))[-1]
    assert (event.cursor, event.kind, event.turn_no) == (4, "forked", 2)
    assert event.data == {"child_id": "child", "child_uuid": str(child.branch_uuid)}
    [event] = await all_events(child)
    assert (event.cursor, event.kind, event.turn_no) == (1, "forked", 2)
    assert event.data == {
        "parent_id": "main",
        "parent_uuid": str(branch.branch_uuid),
        "checkpoint_turn": 0,
    }


async def test_events_cannot_be_changed_or_made_up(client: ContextClient, connection: Connection):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    for statement in (
        "update durable_context.events set turn_no = 2",
        "delete from durable_context.events",
        "truncate durable_context.events",
    ):
        with pytest.raises(asyncpg.PostgresError, match="immutable") as refused:
            await connection.execute(statement)
        assert refused.value.sqlstate == "DC001"
    with pytest.raises(asyncpg.PostgresError, match="by triggers alone") as refused:
        await connection.execute(
            "select durable_context.note_event('default', $1, 'recorded', 2, null, '{}')",
            branch.branch_uuid,
        )
    assert refused.value.sqlstate == "DC005"
