"""Recording: one round trip, idempotent, without holes, nothing lost."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from durable_context import ContextClient, Message
from durable_context.errors import (
    DatabaseUnavailable,
    HeadConflict,
    IncompleteToolExchange,
    InvalidId,
    InvalidTurn,
    SchemaMissing,
    TurnKeyConflict,
    UnknownBranch,
)
from durable_context.prompts.prepared import Budget
from tests.turns import call, calling, chat, exchange, numbered, result


async def test_turns_are_numbered_from_one_and_come_back_as_recorded(client: ContextClient):
    branch = await client.open_branch("c")
    messages = [
        {"role": "user", "content": "Look at A", "name": "ann"},
        *exchange("call_1", "found", "look", at="A"),
        {"role": "assistant", "content": "Done"},
    ]
    turn = await branch.record_turn(
        messages,
        turn_key="k",
        usage={"input_tokens": 5},
        metadata={"model": "m"},
        occurred_at=datetime(2026, 5, 4, 12, tzinfo=UTC),
    )
    (stored,) = await branch.turns()
    assert stored.model_copy(update={"ledger": turn.ledger}) == turn
    assert stored.turn_no == 1
    assert stored.messages[1].tool_calls[0].arguments == '{"at": "A"}'
    assert stored.messages[2] == Message(role="tool", tool_call_id="call_1", content="found")
    assert stored.usage == {"input_tokens": 5}
    assert stored.metadata == {"model": "m"}


async def test_recording_is_one_statement(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))  # the driver reads type information once a connection
    statements: list[str] = []
    async with client._resources.pool.acquire() as connection:
        connection.add_query_logger(lambda query: statements.append(query.query))
    await branch.record_turn(numbered(2))
    assert len(statements) == 1, statements


async def test_the_same_key_and_content_is_recorded_once(client: ContextClient):
    branch = await client.open_branch("c")
    first = await branch.record_turn(numbered(1), turn_key="k")
    await branch.record_turn(numbered(2))
    again = await branch.record_turn(numbered(1), turn_key="k")
    assert (again.turn_no, again.recorded_at, again.repeated) == (1, first.recorded_at, True)
    assert [turn.turn_no for turn in await branch.turns()] == [1, 2]


async def test_the_same_key_with_other_content_is_refused_and_names_the_turn(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1), turn_key="k")
    with pytest.raises(TurnKeyConflict, match="'k' was used for turn 1"):
        await branch.record_turn(numbered(2), turn_key="k")
    with pytest.raises(TurnKeyConflict):
        await branch.record_turn(numbered(1), turn_key="k", outcome="failed")
    assert len(await branch.turns()) == 1


async def test_concurrent_writers_leave_no_hole_and_repeat_nothing(client: ContextClient):
    branch = await client.open_branch("c")
    writes = [
        branch.record_turn(numbered(n), turn_key=f"key {n}", on_conflict="append")
        for n in [*range(60), *range(60)]
    ]
    turns = await asyncio.gather(*writes)
    assert sorted({turn.turn_no for turn in turns}) == list(range(1, 61))
    assert sum(turn.repeated for turn in turns) == 60
    assert [turn.turn_no for turn in await branch.turns()] == list(range(1, 61))


async def test_a_prompt_made_before_another_turn_is_a_conflict(client: ContextClient):
    branch = await client.open_branch("c")
    prepared = await branch.prepare("hello", budget=Budget(max_tokens=1000))
    await branch.record_turn(numbered(1))
    with pytest.raises(HeadConflict, match="at turn 1, not at turn 0") as conflict:
        await branch.record_turn(numbered(2), prepared=prepared)
    assert (conflict.value.expected, conflict.value.actual) == (0, 1)
    turn = await branch.record_turn(numbered(2), prepared=prepared, on_conflict="append")
    assert turn.turn_no == 2


async def test_a_retry_after_the_branch_moved_on_is_still_a_repeat(client: ContextClient):
    branch = await client.open_branch("c")
    prepared = await branch.prepare("hello", budget=Budget(max_tokens=1000))
    await branch.record_turn(numbered(1), turn_key="k", prepared=prepared)
    await branch.record_turn(numbered(2))
    again = await branch.record_turn(numbered(1), turn_key="k", prepared=prepared)
    assert again.repeated


async def test_what_a_prompt_was_made_with_is_kept_once(
    client: ContextClient, connection: "asyncpg.Connection[asyncpg.Record]"
):
    branch = await client.open_branch("c")
    budget = Budget(max_tokens=5000, instructions="Be brief.", tools=({"type": "function"},))
    for n in range(3):
        prepared = await branch.prepare("hello", budget=budget)
        assert prepared
        await branch.record_turn(numbered(n), prepared=prepared)
    parts = await connection.fetch("select parts from durable_context.prompt_parts")
    assert [row["parts"] for row in parts] == [budget.parts()]
    manifests = await connection.fetch("select manifest from durable_context.turns")
    assert all('"instructions"' in row["manifest"] for row in manifests)


async def test_an_incomplete_exchange_is_refused_with_its_ids(client: ContextClient):
    branch = await client.open_branch("c")
    messages = [calling(call("a", "f"), call("b", "g")), result("b", "ok")]
    with pytest.raises(IncompleteToolExchange, match="'a'") as refused:
        await branch.record_turn(messages)
    assert refused.value.call_ids == ("a",)
    assert await branch.turns() == ()


async def test_an_interrupted_turn_gets_results_that_say_so(client: ContextClient):
    branch = await client.open_branch("c")
    messages = [calling(call("a", "f"), call("b", "g")), result("b", "ok")]
    turn = await branch.record_turn(messages, outcome="interrupted")
    assert [(m.tool_call_id, m.synthetic) for m in turn.messages[1:]] == [("b", False), ("a", True)]
    prepared = await branch.prepare("go on", budget=Budget(max_tokens=2000))
    assert prepared
    assert "interrupted" in prepared.messages[2]["content"]
    assert "synthetic" not in prepared.messages[2]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one message"),
        ("hello", "sequence of messages"),
        ([{"role": "system", "content": "x"}], "'system'.*Budget"),
        ([{"role": "developer", "content": "x"}], "'developer'"),
        ([{"role": "robot", "content": "x"}], "'robot'; allowed are user, assistant, tool"),
        ([{"role": "user", "content": 5}], "content 5"),
        ([{"role": "user", "content": [5]}], "part 5"),
        ([{"role": "user", "content": [{"type": "smell"}]}], "one of text, image_url"),
        ([{"role": "user", "content": [{"type": "tool_result"}]}], "needs 'tool_use_id'"),
        ([result("x", "orphan")], "tool result for 'x'"),
        ([{"role": "user", "tool_calls": [call("a", "f")]}], "only 'assistant' may"),
        ([calling(call("a", "f"), call("a", "g"))], "repeats a tool call id"),
        ([calling({"type": "function"})], "needs an 'id'"),
        ([3], "not a Message"),
    ],
)
async def test_what_is_no_turn_is_refused_with_the_reason(
    client: ContextClient, messages: list[object], reason: str
):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidTurn, match=reason):
        await branch.record_turn(messages)
    assert await branch.turns() == ()


async def test_our_own_blocks_are_not_recorded(client: ContextClient):
    branch = await client.open_branch("c")
    for n in range(10):
        await branch.record_turn(numbered(n))
    prepared = await branch.prepare("and now?", budget=Budget(max_tokens=3000))
    assert prepared
    with pytest.raises(InvalidTurn, match="prepare\\(\\) made"):
        await branch.record_turn([*prepared.messages, {"role": "assistant", "content": "x"}])


@pytest.mark.parametrize(
    "text",
    [
        "a\x00b",
        "lone \ud800 surrogate",
        "\udfff",
        "<|endoftext|>",
        "\x00",
        "",
        "👩‍👩‍👧‍👦",
        "x" * 300_000,
    ],
)
async def test_any_text_is_recorded_and_read_back(client: ContextClient, text: str):
    branch = await client.open_branch("c")
    messages = [
        {"role": "user", "content": text},
        *exchange("a", text, "f", value=text),
        {"role": "assistant", "content": text},
    ]
    await branch.record_turn(messages, metadata={"text": text})
    (turn,) = await branch.turns()
    assert turn.messages[0].content == text
    assert turn.messages[3].content == text
    assert turn.metadata == {"text": text}
    prepared = await branch.prepare(text or "?", budget=Budget(max_tokens=1_000_000))
    assert prepared
    sent = "".join(str(message.get("content")) for message in prepared.messages)
    assert "\x00" not in sent
    sent.encode()


async def test_every_shape_of_turn_is_legal(client: ContextClient):
    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "assistant", "content": "Welcome!"}])
    await branch.record_turn([{"role": "user", "content": "stop"}], outcome="interrupted")
    await branch.record_turn([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    await branch.record_turn([{"role": "assistant", "content": None}], outcome="failed")
    assert [turn.outcome for turn in await branch.turns()] == [
        "complete",
        "interrupted",
        "complete",
        "failed",
    ]


async def test_sdk_objects_and_unknown_fields_are_taken(client: ContextClient):
    class Reply:
        def model_dump(self, **_: object) -> dict[str, object]:
            return {"role": "assistant", "content": "hi", "refusal": None, "reasoning": "because"}

    branch = await client.open_branch("c")
    await branch.record_turn([{"role": "user", "content": "hi"}, Reply()])
    (turn,) = await branch.turns()
    assert turn.messages[1].extra == {"reasoning": "because"}
    prepared = await branch.prepare("go", budget=Budget(max_tokens=1000))
    assert prepared
    assert "reasoning" not in prepared.messages[1]


async def test_bad_arguments_name_the_value_and_what_is_allowed(client: ContextClient):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidTurn, match="'done'; allowed are complete, interrupted, failed"):
        await branch.record_turn(numbered(1), outcome="done")  # type: ignore[arg-type]
    with pytest.raises(InvalidTurn, match="time zone"):
        await branch.record_turn(numbered(1), occurred_at=datetime(2026, 1, 1))
    with pytest.raises(InvalidId, match="turn_key=''"):
        await branch.record_turn(numbered(1), turn_key="")
    for bad in ("", "a\x00b", "\ud800", "x" * 501, 5):
        with pytest.raises(InvalidId, match="conversation_id="):
            await client.open_branch(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="p50k_base"):
        await ContextClient.connect("postgresql://", temporal=None, encoding="p50k_base")


async def test_tenants_do_not_see_each_other(client: ContextClient, database_url: str):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    async with await ContextClient.connect(database_url, temporal=None, tenant="other") as other:
        with pytest.raises(UnknownBranch, match="'other' has no branch 'main'"):
            await other.find_branch("c")
        theirs = await other.open_branch("c")
        assert await theirs.turns() == ()
        assert theirs.branch_uuid != branch.branch_uuid


async def test_written_turns_cannot_be_changed(
    client: ContextClient, connection: "asyncpg.Connection[asyncpg.Record]"
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    with pytest.raises(asyncpg.PostgresError, match="immutable") as refused:
        await connection.execute("update durable_context.turns set digest = 'x'")
    assert refused.value.sqlstate == "DC001"


async def test_a_database_without_our_schema_says_what_to_run(postgres):
    name = f"empty_{uuid4().hex}"
    admin = await asyncpg.connect(postgres.url_of("postgres"))
    await admin.execute(f"create database {name}")
    try:
        async with await ContextClient.connect(postgres.url_of(name), temporal=None) as client:
            with pytest.raises(SchemaMissing, match=r"python -m durable_context\.migrations"):
                await client.open_branch("c")
    finally:
        await admin.execute(f"drop database {name} with (force)")
        await admin.close()


async def test_recording_keeps_hot_updates_of_the_branch_row(
    client: ContextClient, connection: "asyncpg.Connection[asyncpg.Record]"
):
    branch = await client.open_branch("c")
    for n in range(50):
        await branch.record_turn(numbered(n))
    await connection.execute("select pg_stat_force_next_flush()")
    row = await connection.fetchrow(
        "select pg_stat_get_tuples_updated(c.oid) as updated,"
        " pg_stat_get_tuples_hot_updated(c.oid) as hot from pg_class c"
        " where c.oid = 'durable_context.branches'::regclass"
    )
    assert row is not None
    assert row["hot"] == row["updated"]


async def test_ledger_and_digest_are_computed_when_a_turn_is_written(client: ContextClient):
    branch = await client.open_branch("c")
    turn = await branch.record_turn(
        chat("My order is ORD-99817, mail kim@example.com", "I refunded 12.50 EUR.")
    )
    values = {(entry.kind, entry.value) for entry in turn.ledger}
    assert ("email", "kim@example.com") in values
    assert any("ORD-99817" in value for _, value in values)
    assert "ORD-99817" in turn.digest


@pytest.mark.parametrize(
    "usage", [[], "", 0, [1], {1: 1}, {"a": float("nan")}, {"a": b"x"}, {"a": {1, 2}}]
)
async def test_what_is_no_json_object_is_refused_before_anything_is_written(
    client: ContextClient, usage: Any
):
    branch = await client.open_branch("c")
    with pytest.raises(InvalidTurn, match="usage"):
        await branch.record_turn(numbered(1), usage=usage)
    with pytest.raises(InvalidTurn, match="metadata"):
        await branch.record_turn(numbered(1), metadata=usage)
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidTurn, match="nested more than"):
        await branch.record_turn([{"role": "user", "content": "x", "deep": deep}])
    assert await branch.turns() == ()


async def test_a_prompt_of_another_branch_is_refused(client: ContextClient):
    one, other = await client.open_branch("one"), await client.open_branch("other")
    prepared = await one.prepare("hello", budget=Budget(max_tokens=100))
    assert prepared
    with pytest.raises(InvalidTurn, match="another branch"):
        await other.record_turn(numbered(1), prepared=prepared)
    refused = await one.prepare("hello", budget=Budget(max_tokens=1))
    with pytest.raises(InvalidTurn, match="is not a PreparedContext"):
        await one.record_turn(numbered(1), prepared=refused)  # type: ignore[arg-type]


async def test_published_rows_cannot_be_deleted(
    client: ContextClient, connection: "asyncpg.Connection[asyncpg.Record]"
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    for statement in ("delete from durable_context.turns", "truncate durable_context.turns"):
        with pytest.raises(asyncpg.PostgresError, match="immutable"):
            await connection.execute(statement)


async def test_secrets_stay_out_of_digest_and_ledger(client: ContextClient):
    branch = await client.open_branch("c")
    secret, password = "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "hunter2!X"
    turn = await branch.record_turn(
        [
            {"role": "user", "content": f"Use password: {password} and api_key={secret}"},
            *exchange("a", f"token {secret} stored", "set_key", token=secret),
            {"role": "assistant", "content": f"I have set {secret}."},
        ]
    )
    kept = turn.digest + " ".join(entry.value for entry in turn.ledger)
    assert secret not in kept
    assert password not in kept
    assert turn.messages[0].content is not None
    assert secret in str(turn.messages[0].content)


async def test_a_dropped_connection_is_an_error_of_ours(
    client: ContextClient, connection: "asyncpg.Connection[asyncpg.Record]"
):
    branch = await client.open_branch("c")
    writes = [
        asyncio.create_task(branch.record_turn(numbered(n), on_conflict="append"))
        for n in range(40)
    ]
    await connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    results = await asyncio.gather(*writes, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(failure, DatabaseUnavailable) for failure in failures), failures
    recorded = {result.turn_no for result in results if not isinstance(result, BaseException)}
    assert recorded <= {turn.turn_no for turn in await branch.turns()}
