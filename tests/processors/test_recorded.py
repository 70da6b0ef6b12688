"""What prompts offloaded is found again in the turns, in another process and in forks."""

import json
import re
from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.database import Connection
from durable_context.errors import ArtifactDamaged, ContextError
from durable_context.processors.context import Context
from durable_context.processors.markers import handle_of
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.offloaded import reload_offloaded
from durable_context.processors.pipeline import ProcessorPipeline
from tests.provider_turns import PNG
from tests.turns import call, calling, chat, exchange, result

ANSWER = "word " * 500
TABLE = "\n".join(f"row {n}: SHP-{n:04d} in Rotterdam" for n in range(2_000))
WIDE = Budget(max_tokens=200_000)
UNKNOWN = "off_0123456789ab"


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("c")


async def handles(branch: Branch) -> list[str]:
    """Those that a prompt shows whose long messages are offloaded."""
    pipeline = ProcessorPipeline().register(MessageOffloader(max_message_size=1_000))
    prepared = await branch.prepare("hi", budget=WIDE, pipeline=pipeline)
    assert isinstance(prepared, PreparedContext)
    return re.findall(r"off_[0-9a-f]{12}", json.dumps(prepared.messages))


async def reloaded(branch: Branch, handle: str) -> str:
    return await reload_offloaded(await Context.from_branch(branch), handle)


async def tamper(connection: Connection) -> None:
    await connection.execute("set session_replication_role = replica")  # without triggers
    await connection.execute(
        "update durable_context.artifact_contents set data = set_byte(data, 100, 0)"
    )


async def test_a_text_is_found_whatever_artifact_is_damaged(branch: Branch, connection: Connection):
    await branch.record_turn(chat("Write.", ANSWER))
    await branch.record_turn([{"role": "user", "content": "Fetch."}, *exchange("a", TABLE)])
    await tamper(connection)
    assert await reloaded(branch, handle_of(ANSWER, str(branch.branch_uuid))) == ANSWER


async def test_an_artifact_is_found_whatever_newer_one_is_damaged(
    branch: Branch, connection: Connection
):
    await branch.record_turn([{"role": "user", "content": "Fetch."}, *exchange("a", TABLE)])
    (kept,) = await connection.fetch("select data from durable_context.artifact_contents")
    await branch.record_turn([{"role": "user", "content": "Again."}, *exchange("b", TABLE + "!")])
    await tamper(connection)
    await connection.execute(
        "update durable_context.artifact_contents set data = $1 where octet_length(data) ="
        " (select min(octet_length(data)) from durable_context.artifact_contents)",
        kept["data"],
    )
    assert await reloaded(branch, handle_of(TABLE, str(branch.branch_uuid))) == TABLE


async def test_what_may_be_in_a_damaged_artifact_is_not_said_to_be_unknown(
    branch: Branch, connection: Connection
):
    await branch.record_turn([{"role": "user", "content": "Fetch."}, *exchange("a", TABLE)])
    with pytest.raises(ContextError, match=UNKNOWN):
        await reloaded(branch, UNKNOWN)
    await tamper(connection)
    with pytest.raises(ArtifactDamaged):
        await reloaded(branch, UNKNOWN)


async def test_the_task_of_an_open_run_is_found_however_long_the_run_is(branch: Branch):
    task = [{"role": "user", "content": ANSWER}, *exchange("a", "ok")]
    await branch.record_turn(task, continues=True)
    for n in range(66):
        await branch.record_turn(exchange(f"c{n}", "ok"), continues=True)
    assert await reloaded(branch, handle_of(ANSWER, str(branch.branch_uuid))) == ANSWER


async def test_texts_beside_an_image_are_found_alone_and_as_one(branch: Branch):
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    parts: list[Any] = [{"type": "text", "text": ANSWER}, image]
    asked = [{"role": "user", "content": "Look."}, calling(call("a", "look"))]
    await branch.record_turn([*asked, {**result("a", ""), "content": parts}])
    prepared = await branch.prepare(None, pending=exchange("b", "ok"), budget=WIDE)
    assert isinstance(prepared, PreparedContext)
    (shown,) = [one["content"] for one in prepared.messages if one.get("tool_call_id") == "a"]
    together = "\n".join(part["text"] for part in shown)
    scope = str(branch.branch_uuid)
    assert await reloaded(branch, handle_of(ANSWER, scope)) == ANSWER
    assert await reloaded(branch, handle_of(together, scope)) == together


async def test_a_fork_finds_what_its_parents_prompts_offloaded_before(branch: Branch):
    await branch.record_turn(chat("Write.", ANSWER))
    (handle,) = await handles(branch)
    fork = await (await branch.fork("child")).fork("grandchild")
    await branch.record_turn(chat("Write.", ANSWER + "later"))
    assert await reloaded(fork, handle) == ANSWER
    with pytest.raises(ContextError):
        await reloaded(fork, handle_of(ANSWER + "later", str(branch.branch_uuid)))


async def test_another_conversation_does_not_find_the_same_content(
    branch: Branch, client: ContextClient
):
    other = await client.open_branch("d")
    for each in (branch, other):
        await each.record_turn(chat("Write.", ANSWER))
    with pytest.raises(ContextError):
        await reloaded(other, handle_of(ANSWER, str(branch.branch_uuid)))
