"""Turns of every provider's format through the database: recorded, prepared, and sent back."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from durable_context import Budget, CompactionPolicy, ContextClient, Message, PreparedContext
from durable_context.database import Pool
from durable_context.tokens import reasoning_tokens, token_counter
from tests.compacting import compact_all
from tests.prompts import check_prompt
from tests.provider_requests import check_anthropic, check_chat, check_gemini, check_responses
from tests.provider_turns import ANTHROPIC, GEMINI, RESPONSES, blocks_of
from tests.turns import numbered

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
WIDE = Budget(max_tokens=200_000, instructions="Be brief.", tools=(TOOL,))
FORMATS = pytest.mark.parametrize("turn", [ANTHROPIC, RESPONSES, GEMINI], ids=["a", "r", "g"])


def said_by(prepared: PreparedContext, turn: object) -> Sequence[Any]:
    """The messages of the turn's own format, instructions and the last two messages apart."""
    if turn is ANTHROPIC:
        return prepared.to_anthropic()["messages"][:-1]
    if turn is RESPONSES:
        return prepared.to_responses_input()[1:-1]
    return prepared.to_gemini()["contents"][:-1]


def check_all(prepared: PreparedContext) -> None:
    check_anthropic(prepared.to_anthropic())
    check_responses(prepared.to_responses_input())
    check_gemini(prepared.to_gemini())


@FORMATS
async def test_a_turn_is_sent_back_as_it_was_recorded(
    client: ContextClient, turn: list[dict[str, Any]]
):
    branch = await client.open_branch("c")
    recorded = await branch.record_turn(turn)
    prepared = await branch.prepare("And now?", budget=WIDE)
    assert prepared
    check_prompt(prepared, 1, CompactionPolicy())
    check_chat(prepared.messages)
    check_all(prepared)
    loaded = await prepared.load_parts()
    check_all(loaded)
    assert loaded.to_anthropic()["tools"] == [{"name": "find", "input_schema": {"type": "object"}}]
    assert [_unmarked(message) for message in said_by(loaded, turn)] == turn
    (read,) = await branch.turns()
    assert read.messages == recorded.messages
    assert blocks_of(read.messages)


def _unmarked(message: dict[str, Any]) -> dict[str, Any]:
    """Without the marks for the cache, which are the request's."""
    for block in message.get("content") or () if "parts" not in message else ():
        if isinstance(block, dict):
            block.pop("cache_control", None)
    return message


@FORMATS
async def test_pending_and_the_user_message_are_sent_in_their_own_format(
    client: ContextClient, turn: list[dict[str, Any]]
):
    branch = await client.open_branch("c")
    split = next(n for n, one in enumerate(turn) if one.get("role") != "user")
    prepared = await branch.prepare(turn[0], budget=WIDE)
    assert prepared
    check_all(prepared)
    await branch.record_turn(turn[:split], continues=True)
    prepared = await branch.prepare(None, budget=WIDE, pending=turn[split:])
    assert prepared
    check_all(prepared)
    assert prepared.reasoning


@FORMATS
async def test_summarizers_do_not_pay_for_reasoning(
    client: ContextClient, pool: Pool, turn: list[dict[str, Any]]
):
    branch = await client.open_branch("c")
    recorded = await branch.record_turn(turn)
    row = await pool.fetchrow("select token_count, stored_tokens from durable_context.turns")
    assert row is not None
    cost = sum(map(reasoning_tokens, _reasoning(recorded.messages)))
    assert cost > 0
    assert row["token_count"] == recorded.token_count
    counter = token_counter(branch.encoding)
    bare = sum(
        counter.count_message(m.model_copy(update={"reasoning": ()})) for m in recorded.messages
    )
    assert row["stored_tokens"] <= bare <= row["token_count"] - cost


async def test_reasoning_is_in_nothing_that_others_read(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    thought = {"type": "thinking", "thinking": "The klaxophone at /etc/klaxo.", "signature": "s"}
    signed = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "klaxophone"}
    for n in range(1, 13):
        asked, answered = numbered(n)
        content = [thought, {"type": "text", "text": answered["content"]}]
        said = {"type": "message", **answered}
        await branch.record_turn(
            [asked, signed, said] if n % 2 else [asked, {"role": "assistant", "content": content}]
        )
    await compact_all(pool, branch.branch_uuid)
    prepared = await branch.prepare("klaxophone?", budget=WIDE)
    assert prepared
    assert len(prepared.reasoning) == 2
    kept = [prepared.messages[:-1], await branch.summaries(), await branch.checkpoints()]
    kept += await pool.fetch(
        "select digest, ledger, views, message_terms from durable_context.turns"
    )
    assert "klaxo" not in repr(kept)
    assert await branch.search("klaxophone") == ()


async def test_large_reasoning_is_the_first_thing_that_a_tight_prompt_leaves_out(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    thought = {"type": "thinking", "thinking": "so much " * 3_000, "signature": "s"}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
    await branch.record_turn([{"role": "user", "content": "Is it?"}, said])
    wide = await branch.prepare("Sure?", budget=Budget(max_tokens=50_000))
    tight = await branch.prepare("Sure?", budget=Budget(max_tokens=1_000))
    assert wide and tight
    assert _unmarked(wide.to_anthropic()["messages"][1]) == said
    assert tight.messages == wide.messages
    assert [reduction.kind for reduction in tight.manifest.reductions] == ["view"]
    assert _unmarked(tight.to_anthropic()["messages"][1])["content"] == said["content"][1:]


async def test_calls_keep_their_reasoning_when_they_become_views(client: ContextClient):
    branch = await client.open_branch("c")
    thought = {"type": "thinking", "thinking": "I write.", "signature": "s"}
    arguments = {"text": "line\n" * 3_000}
    use = {"type": "tool_use", "id": "t1", "name": "write", "input": arguments}
    turn = [
        {"role": "user", "content": "Write it."},
        {"role": "assistant", "content": [thought, use]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}],
        },
    ]
    await branch.record_turn(turn)
    prepared = await branch.prepare("Next.", budget=Budget(max_tokens=1_200))
    assert prepared
    check_all(prepared)
    blocks = prepared.to_anthropic()["messages"][1]["content"]
    assert blocks[0] == thought
    assert blocks[1]["input"] != arguments


async def test_offloaded_messages_count_their_reasoning_where_it_is_sent(
    make_client: Callable[..., Awaitable[ContextClient]],
):
    policy = CompactionPolicy(offload_messages=True)
    branch = await (await make_client(policy)).open_branch("c")
    thought = {"type": "thinking", "thinking": "so much " * 300, "signature": "s"}
    large = {"type": "text", "text": "words and words\n" * 6_000}
    use = {"type": "tool_use", "id": "t1", "name": "find", "input": {}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": large["text"]}
    turn = [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": [thought, large, thought, use]},
        {"role": "user", "content": [failed | {"is_error": True}]},
        {"role": "assistant", "content": [thought, large]},
    ]
    await branch.record_turn(turn)
    prepared = await branch.prepare("Next.", budget=WIDE)
    assert prepared
    check_prompt(prepared, 1, policy)
    check_all(prepared)
    assert "1 message 1: a view" in " ".join(prepared.manifest.omitted)
    blocks = _blocks(prepared.to_anthropic())
    kinds = [block["type"] for block in blocks]
    assert kinds.count("thinking") == 2 and kinds.count("tool_use") == 1
    assert [block["is_error"] for block in blocks if block["type"] == "tool_result"] == [True]


async def test_stable_blocks_are_marked_and_stay_the_same(client: ContextClient, pool: Pool):
    branch = await client.open_branch("c")
    for n in range(1, 14):
        await branch.record_turn(numbered(n))
    await compact_all(pool, branch.branch_uuid)
    requests: list[list[dict[str, Any]]] = []
    for n in (14, 15):
        prepared = await branch.prepare("Where is it?", budget=WIDE)
        assert prepared
        check_all(prepared)
        request = prepared.to_anthropic()
        requests.append([*request["system"], *_blocks(request)])
        await branch.record_turn(numbered(n))
    first, second = requests
    marks = [n for n, block in enumerate(first) if "cache_control" in block]
    assert len(marks) >= 2
    repeated = [block["text"] for block in second[: marks[-1] + 1]]
    assert repeated == [block["text"] for block in first[: marks[-1] + 1]]


def _blocks(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for message in request["messages"] for block in message["content"]]


async def test_an_exported_branch_is_imported_with_its_reasoning(client: ContextClient):
    branch = await client.open_branch("c")
    for turn in (ANTHROPIC, RESPONSES, GEMINI):
        await branch.record_turn(turn)
    lines = [line async for line in client.export_branch("c", "main")]
    copy = await client.import_branch(lines, conversation_id="c", branch_id="copy")
    assert await copy.turns() == await branch.turns()
    ours, theirs = [await one.prepare("Go.", budget=WIDE) for one in (branch, copy)]
    assert ours and theirs
    assert theirs.to_anthropic() == ours.to_anthropic()
    assert theirs.to_responses_input() == ours.to_responses_input()
    assert theirs.to_gemini() == ours.to_gemini()


async def test_a_message_stored_before_reasoning_was_kept_is_read(
    client: ContextClient, pool: Pool
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    text = await pool.fetchval("select messages::text from durable_context.turns")
    assert "reasoning" not in text
    (turn,) = await branch.turns()
    assert all(message.reasoning == () for message in turn.messages)


def _reasoning(messages: Sequence[Message]) -> list[Any]:
    return [block for message in messages for block in message.reasoning]
