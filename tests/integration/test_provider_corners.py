"""What SDKs and broken streams really hand over, in each format."""

from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionMessageToolCall

from durable_context import Branch, Budget, ContextClient, Message, PreparedContext
from durable_context.errors import InvalidTurn
from tests.provider_prompts import check_providers
from tests.turns import call, calling, result

WIDE = Budget(max_tokens=100_000)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("corners")


async def prompt_after(branch: Branch, turn: list[Any], **how: Any) -> PreparedContext:
    await branch.record_turn(turn, **how)
    prepared = await branch.prepare("And then?", budget=WIDE)
    assert prepared
    check_providers(prepared)
    return prepared


async def test_lists_of_sdk_objects_are_read(branch: Branch):
    used = ToolUseBlock(id="a", name="find", input={"q": "x"}, type="tool_use")
    content = [TextBlock(text="Looking.", type="text", citations=None), used]
    calls = ChatCompletionMessageToolCall.model_validate(call("b", "find", q="y"))
    turn = [
        {"role": "user", "content": "Find x and y."},
        {"role": "assistant", "content": content},
        result("a", "here"),
        {"role": "assistant", "content": None, "tool_calls": [calls]},
        result("b", "there"),
    ]
    prepared = await prompt_after(branch, turn)
    named = [c["id"] for m in prepared.messages for c in m.get("tool_calls", ())]
    assert named == ["a", "b"]
    assert prepared.messages[1]["content"] == "Looking."


CHAT = ChatCompletion.model_validate(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Found."},
            }
        ],
    }
)
GEMINI = GenerateContentResponse.model_validate(
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Found."}]}}]}
)


@pytest.mark.parametrize("choices", [CHAT, CHAT.choices, GEMINI, GEMINI.candidates])
async def test_whole_responses_and_their_choices_are_read(branch: Branch, choices: Any):
    said = choices[0] if isinstance(choices, list) else choices
    prepared = await prompt_after(branch, [{"role": "user", "content": "Find."}, said])
    assert prepared.messages[1] == {"role": "assistant", "content": "Found."}


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Undumpable:
    def model_dump(self, **_: Any) -> dict[str, Any]:
        raise RuntimeError("no")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "message",
    [
        Message,
        Undumpable(),
        Unshowable(),
        {"role": "user", "content": nested(100_000)},
        {"role": "user", "parts": nested(100_000)},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": nested(500)}}]},
        {"role": "user", "content": 10**5_000},
        {"role": 10**5_000, "content": "x"},
        {"role": Unshowable(), "content": [{"type": "input_text", "text": "x"}]},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_cannot_be_read_or_shown_is_refused_by_place(branch: Branch, message: object):
    with pytest.raises(InvalidTurn, match="message 0"):
        await branch.record_turn([message])
    assert await branch.turns() == ()


async def test_a_servers_call_without_its_result_is_told_in_words(branch: Branch):
    """A stream that broke off: Anthropic refuses either half alone."""
    used = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    turn = [
        {"role": "user", "content": "Search."},
        {"role": "assistant", "content": [{"type": "text", "text": "Searching."}, used]},
    ]
    prepared = await prompt_after(branch, turn, outcome="interrupted")
    said = prepared.to_anthropic()["messages"][1]["content"]
    assert [block["type"] for block in said] == ["text", "text"]
    assert "web_search" in said[1]["text"]


async def test_items_before_all_reasoning_lose_their_ids(branch: Branch):
    """A message after a call stands before it in a turn, and so before the call's reasoning."""
    turn = [
        {"role": "user", "content": "Go."},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c",
            "name": "find",
            "arguments": "{}",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "On it.", "annotations": []}],
        },
        {"type": "function_call_output", "call_id": "c", "output": "found"},
    ]
    items = (await prompt_after(branch, turn)).to_responses_input()
    ids = [(item["type"], item.get("id")) for item in items]
    assert ids[1:4] == [("message", None), ("reasoning", "rs_1"), ("function_call", "fc_1")]


async def test_an_image_in_a_result_is_a_reference_in_chat_alone(branch: Branch):
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    turn = [
        {"role": "user", "content": "Look."},
        calling(call("a", "screenshot")),
        result("a", "") | {"content": [image]},
        {"role": "assistant", "content": "Seen."},
    ]
    prepared = await prompt_after(branch, turn)
    assert "https://example.org/a.png" in prepared.messages[2]["content"][0]["text"]
    [shown] = prepared.to_responses_input()[2]["output"]
    assert shown["image_url"] == "https://example.org/a.png"
