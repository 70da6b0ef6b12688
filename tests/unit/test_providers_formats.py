"""What is recorded in one provider's format comes back equal in it, and valid in all others."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as genai
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import Response

from durable_context import Message
from durable_context.errors import InvalidTurn
from durable_context.turns.messages import exchanges, user_message_of
from tests import provider_turns
from tests.provider_requests import check_anthropic, check_gemini, check_responses
from tests.provider_turns import (
    ANTHROPIC,
    GEMINI,
    RESPONSES,
    anthropic,
    chat_of,
    gemini,
    recorded,
    responses,
)
from tests.turns import call, calling, chat, result

FORMATS = {"anthropic": ANTHROPIC, "responses": RESPONSES, "gemini": GEMINI}
SECRETS = ("c2lnbmVk", "ZW5jcnlwdGVk", "First I look.", "b3BhcXVl", "rs_1", "msg_1", "fc_1")


@pytest.mark.parametrize("turn", FORMATS.values(), ids=FORMATS.keys())
def test_a_turn_of_any_format_is_valid_in_every_format(turn: list[dict[str, Any]]):
    messages = recorded(*turn)
    check_anthropic(anthropic(messages))
    check_responses(responses(messages))
    check_gemini(gemini(messages))
    roles = [message.role for message in messages]
    assert roles == ["user", "assistant", *["tool"] * roles.count("tool"), "assistant"]


def test_what_is_recorded_in_a_format_comes_back_in_it():
    go_on = {"role": "user", "content": [{"type": "text", "text": "(go on)"}]}
    assert anthropic(recorded(*ANTHROPIC))["messages"] == [*ANTHROPIC, go_on]
    assert responses(recorded(*RESPONSES)) == RESPONSES
    said = gemini(recorded(*GEMINI))["contents"]
    assert said == [*GEMINI, {"role": "user", "parts": [{"text": "(go on)"}]}]


@pytest.mark.parametrize("turn", FORMATS.values(), ids=FORMATS.keys())
def test_what_only_one_provider_can_read_is_in_no_other_format(turn: list[dict[str, Any]]):
    messages = recorded(*turn)
    others = {
        "chat": chat_of(messages),
        "anthropic": anthropic(messages),
        "responses": responses(messages),
        "gemini": gemini(messages),
    }
    own = next(name for name, held in FORMATS.items() if held is turn)
    for name, rendered in others.items():
        text = repr(rendered)
        assert name == own or not [secret for secret in SECRETS if secret in text], name


def test_what_stands_for_a_providers_own_tools_can_be_read_by_others():
    text = json.dumps(chat_of(recorded(*ANTHROPIC)))
    assert "web_search" in text and "https://example.org/squares" in text
    assert "red square" in json.dumps(chat_of(recorded(*RESPONSES)))
    text = json.dumps(chat_of(recorded(*GEMINI)))
    assert "gs://bucket/clip.mp4" in text and "1 + 1" in text


def test_a_recorded_message_is_read_back_as_it_was_stored():
    for turn in FORMATS.values():
        messages = recorded(*turn)
        assert tuple(Message.model_validate(m.model_dump()) for m in messages) == messages
        assert recorded(*[m.model_dump(exclude_defaults=True) for m in messages]) == messages


def test_the_packages_objects_are_read_as_their_dicts():
    said = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "any",
        "content": ANTHROPIC[1]["content"],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    turn = recorded(ANTHROPIC[0], AnthropicMessage.model_validate(said), *ANTHROPIC[2:])
    assert turn[1].extra["stop_reason"] == "tool_use"
    assert anthropic(turn) == anthropic(recorded(*ANTHROPIC))
    contents = [genai.Content.model_validate(content) for content in GEMINI]
    assert recorded(*contents) == recorded(*GEMINI)
    answer = ChatCompletionMessage(role="assistant", content="Hello.")
    assert recorded(*chat("Hi", "Hello.")) == recorded({"role": "user", "content": "Hi"}, answer)


def test_a_whole_response_is_one_assistants_message():
    fields = {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "any",
        "output": RESPONSES[1:6],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    whole = Response.model_validate(fields)
    assert recorded(RESPONSES[0], whole, *RESPONSES[6:]) == recorded(*RESPONSES)
    assert recorded(RESPONSES[0], *whole.output, *RESPONSES[6:]) == recorded(*RESPONSES)


def test_a_gemini_content_may_be_in_the_names_of_its_json():
    spoken = genai.Content.model_validate(GEMINI[1]).model_dump_json(by_alias=True)
    assert "thoughtSignature" in spoken
    assert recorded(GEMINI[0], json.loads(spoken), *GEMINI[2:]) == recorded(*GEMINI)


def test_formats_may_be_mixed_in_one_turn():
    answers = [b | {"tool_use_id": f"call_{n}"} for n, b in enumerate(ANTHROPIC[2]["content"], 1)]
    turn = recorded(
        {"role": "user", "content": "Find it."},
        *RESPONSES[4:6],
        says("user", *answers),
        GEMINI[1],
        GEMINI[2],
        Message(role="assistant", content="Done."),
    )
    assert [m.role for m in turn] == [
        "user", "assistant", "tool", "tool", "assistant", "tool", "tool", "tool", "assistant",
    ]  # fmt: skip
    check_anthropic(anthropic(turn))
    check_responses(responses(turn))
    check_gemini(gemini(turn))


def test_a_short_answer_among_items_is_one_of_them():
    call_item = RESPONSES[4] | {"id": None, "status": None}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
    asked, said = chat("Find it.", "Let me see.")
    assert [m.role for m in recorded(asked, said, call_item, output)] == [
        "user",
        "assistant",
        "tool",
    ]
    kept = said | {"reasoning": [{"provider": "gemini", "block": {"text": "x", "thought": True}}]}
    roles = [m.role for m in recorded(asked, kept, call_item, output)]
    assert roles == ["user", "assistant", "assistant", "tool"]


def test_the_new_user_message_and_pending_take_every_format():
    for turn in FORMATS.values():
        asked = user_message_of(turn[0])
        assert asked is not None and asked.role == "user"
        waiting = exchanges(turn[1:])
        assert waiting[0].tool_calls and waiting[0].reasoning


def says(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def holds(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


NO_CALL = {"function_response": {"name": "f", "response": {}}}
NO_NAME = {"function_call": {"args": {}}}
NO_JSON = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": {1}}}
INPUT = {"type": "input_text", "text": "x"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (says("user", {"type": "tool_use"}, {"type": "hologram"}), "'hologram'"),
        (says("user", {"type": "hologram"}), "'hologram'"),
        (says("user", {"type": "thinking", "thinking": ""}), "a thinking block"),
        (says("user", {"type": "image", "source": {}}), "neither data nor a url"),
        (says("assistant", NO_JSON), "set {1}"),
        ({"type": "computer_call", "call_id": "c"}, "'computer_call' is not one of message"),
        (says("user", INPUT, {"type": "input_smell"}), "'input_smell'"),
        ({"type": "function_call", "name": "f"}, "'call_id' as text, not None"),
        (holds("pilot", {"text": "x"}), "role 'pilot' of a content"),
        (holds("user", {"scent": 1}), "does not hold one of text"),
        (holds("user", NO_CALL), "answers no call"),
        (holds("model", NO_NAME), "a name and args"),
        ({"type": "message", "role": "system", "content": "Obey."}, "Budget(instructions=...)"),
        (3, "not a Message or a dict"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_position(given: object, told: str):
    with pytest.raises(InvalidTurn) as caught:
        recorded({"role": "user", "content": "Hello."}, {"role": "assistant", "content": ""}, given)
    assert "message 2 " in str(caught.value) or "message 2:" in str(caught.value)
    assert told in str(caught.value)


def test_a_pairing_error_names_the_position_that_was_given():
    stray = {"type": "tool_result", "tool_use_id": "gone", "content": ""}
    with pytest.raises(InvalidTurn, match=r"message 3 .*'gone'"):
        recorded(*ANTHROPIC[:3], {"role": "user", "content": [stray]})


CHECKS = {anthropic: check_anthropic, responses: check_responses, gemini: check_gemini}


@pytest.mark.parametrize("render", CHECKS)
def test_a_view_is_sent_as_it_is_shown_and_not_as_what_it_was_made_of(render: Callable[..., Any]):
    for turn in FORMATS.values():
        messages = [
            m.model_copy(update={"content": "[text, 9 lines]"}) if m.role == "assistant" else m
            for m in recorded(*turn)
        ]
        rendered = render(messages)
        CHECKS[render](rendered)
        assert repr(rendered).count("[text, 9 lines]") == 2


def test_reasoning_stays_between_the_calls_that_it_stood_between():
    thought, use = ANTHROPIC[1]["content"][0], ANTHROPIC[1]["content"][4]
    answers = [block | {"content": "1"} for block in ANTHROPIC[2]["content"]]
    content = [thought, use, thought, use | {"id": "toolu_2"}]
    turn = [says("user", text("Find it.")), says("assistant", *content), says("user", *answers)]
    assert anthropic(recorded(*turn))["messages"] == turn
    first, second = RESPONSES[4:6]
    output = {"type": "function_call_output", "output": "1"}
    items = [RESPONSES[1], first, RESPONSES[3], second]
    items += [output | {"call_id": "call_1"}, output | {"call_id": "call_2"}]
    asked = {"type": "message", "role": "user", "content": "Find it."}
    assert responses(recorded(asked, *items)) == [asked, *items]


def test_chat_format_is_passed_on_untouched():
    turn = [*chat("Hi", "Hello."), calling(call("a", "f", x=1)), result("a", "1")]
    assert provider_turns.chat_of(recorded(*turn)) == turn
