"""The rules of each provider that a prompt in chat format knows nothing of."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context import Message
from durable_context.providers.outgoing.anthropic import to_anthropic
from durable_context.providers.outgoing.gemini import to_gemini
from durable_context.providers.outgoing.responses import to_responses_input
from durable_context.turns.messages import turn_messages
from tests.provider_requests import check_anthropic, check_gemini, check_responses
from tests.provider_turns import PDF, PNG, anthropic, gemini, recorded, responses
from tests.turns import call, calling, chat, result

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Hello."}
ANSWER = {"role": "assistant", "content": "Hi. "}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Finds.",
        "strict": True,
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}


def text(said: str) -> dict[str, str]:
    return {"type": "text", "text": said}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


class TestAnthropic:
    def test_the_instructions_and_tools_stand_apart(self):
        request = to_anthropic([SYSTEM, USER], tools=[TOOL])
        check_anthropic(request)
        assert request["system"] == [text("Be brief.")]
        function = TOOL["function"]
        assert request["tools"] == [
            {
                "name": "find",
                "description": "Finds.",
                "input_schema": function["parameters"],
            }
        ]
        assert to_anthropic([USER]) == {"messages": [user(text("Hello."))]}

    def test_a_tool_without_parameters_takes_an_empty_object(self):
        bare = {"type": "function", "function": {"name": "now"}}
        loose = {"type": "function", "function": {"name": "f", "parameters": {"properties": {}}}}
        request = to_anthropic([USER], tools=[bare, loose])
        check_anthropic(request)
        empty = {"type": "object", "properties": {}}
        assert [tool["input_schema"] for tool in request["tools"]] == [empty, empty]

    def test_neighbours_of_one_role_are_one_message(self):
        request = to_anthropic([USER, USER, ANSWER, ANSWER, USER])
        check_anthropic(request)
        assert [len(message["content"]) for message in request["messages"]] == [2, 2, 1]

    def test_it_begins_and_ends_with_the_user(self):
        assert to_anthropic([ANSWER])["messages"] == [
            user(text("(start)")),
            {"role": "assistant", "content": [text("Hi. ")]},
            user(text("(go on)")),
        ]
        assert to_anthropic([SYSTEM])["messages"] == [user(text("(start)"))]

    def test_blank_texts_and_empty_messages_are_left_out(self):
        messages = [USER, {"role": "assistant", "content": None}, user(text(" \n"), text("x"))]
        assert to_anthropic(messages)["messages"] == [user(text("Hello."), text("x"))]
        answered = to_anthropic([*recordable(result("a", " "))])
        assert "content" not in answered["messages"][2]["content"][0]
        check_anthropic(answered)

    def test_results_come_first_in_the_message_of_the_user(self):
        turn = [USER, calling(call("a", "f"), call("b", "f")), result("a", "1"), result("b", "2")]
        request = to_anthropic([*turn, USER])
        check_anthropic(request)
        kinds = [block["type"] for block in request["messages"][-1]["content"]]
        assert kinds == ["tool_result", "tool_result", "text"]

    def test_ids_and_names_are_mapped_the_same_way_each_time(self):
        odd = "functions.find:0|é" + "x" * 80
        turn = [
            calling(call(odd, "my tool"), call("ok-1", "f")),
            result(odd, ""),
            result("ok-1", ""),
        ]
        request = to_anthropic([USER, *turn], tools=[{"type": "function", "name": "my tool"}])
        check_anthropic(request)
        assert request == to_anthropic(
            [USER, *turn], tools=[{"type": "function", "name": "my tool"}]
        )
        first, second = request["messages"][1]["content"]
        assert request["tools"][0]["name"] == first["name"] != "my tool"
        assert second["id"] == "ok-1"

    def test_an_id_of_two_exchanges_is_not_repeated(self):
        turn = [calling(call("call_1", "f")), result("call_1", "")]
        taken = [calling(call("call_1_2", "f")), result("call_1_2", "")]
        request = to_anthropic([USER, *turn, *taken, *turn, *turn])
        check_anthropic(request)
        ids = [m["content"][0]["id"] for m in request["messages"] if m["role"] == "assistant"]
        assert len(set(ids)) == 4 and ids[:2] == ["call_1", "call_1_2"]

    @pytest.mark.parametrize(
        ("arguments", "given"),
        [
            ('{"a": [1, "é"]}', {"a": [1, "é"]}),
            ("", {}),
            ("[1]", {"arguments": "[1]"}),
            ('{"a": ', {"arguments": '{"a": '}),
            ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
            ('{"a": ' * 500, {"arguments": '{"a": ' * 500}),
            (r'{"a": "\ud800"}', {"a": "\ufffd"}),
        ],
    )
    def test_arguments_are_an_object_that_can_be_sent(self, arguments: str, given: dict[str, Any]):
        called = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
        turn = [USER, calling(called), result("a", "")]
        request, contents = to_anthropic(turn), to_gemini(turn)
        check_anthropic(request)
        check_gemini(contents)
        assert request["messages"][1]["content"][0]["input"] == given
        assert contents["contents"][1]["parts"][0]["function_call"]["args"] == given

    def test_a_failed_tool_says_so_however_it_was_recorded(self):
        turn = recorded(USER, calling(call("a", "f")), result("a", "No.") | {"is_error": True})
        block = anthropic(turn)["messages"][2]["content"][0]
        assert block["is_error"] is True and turn[2].extra == {}

    def test_thinking_is_never_moved_behind_what_was_said_before_it(self):
        thinks = {"role": "assistant", "content": [THOUGHT, text("So.")]}
        request = anthropic(recorded(USER, ANSWER, thinks, USER))
        check_anthropic(request)
        said = [[block["type"] for block in m["content"]] for m in request["messages"]]
        assert said == [["text"], ["text"], ["text"], ["thinking", "text"], ["text"]]

    def test_stable_blocks_end_in_at_most_four_marks(self):
        record = "<r>\nhead\n- one\n- two\n</r>\n"
        messages = [SYSTEM, {"role": "user", "content": record}, *chat("a", "b") * 5]
        cuts = (len("<r>\nhead\n"), len("<r>\nhead\n- one\n"), len("<r>\nhead\n- one\n- two\n"))
        request = to_anthropic(messages, breakpoints={0: (), 1: cuts})
        check_anthropic(request)
        pieces = request["messages"][0]["content"]
        assert [p["text"] for p in pieces[:4]] == ["<r>\nhead\n", "- one\n", "- two\n", "</r>\n"]
        assert ["cache_control" in piece for piece in pieces] == [False, False, True, False, False]
        assert "cache_control" in request["system"][0]
        many = to_anthropic(messages, breakpoints={n: () for n in range(len(messages))})
        check_anthropic(many)
        assert "cache_control" in many["system"][0]
        assert json.dumps(many).count("cache_control") == 4
        assert "cache_control" in many["messages"][-2]["content"][-1]

    def test_a_mark_is_never_on_thinking(self):
        messages = recorded(USER, {"role": "assistant", "content": [text("x"), THOUGHT]})
        check = anthropic(messages, breakpoints={0: (), 1: ()})["messages"][1]["content"]
        assert ["cache_control" in block for block in check] == [True, False]

    def test_images_and_files_are_given_as_it_takes_them(self):
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
        bitmap = {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0="}}
        link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
        pdf = {"type": "file", "file": {"filename": "p.pdf", "file_data": f"data:;base64,{PDF}"}}
        table = {"type": "file", "file": {"filename": "t.csv", "file_data": "data:text/csv,a%2Cb"}}
        zipped = {"type": "file", "file": {"filename": "z.zip", "file_data": "UEsDBA=="}}
        foreign = {"type": "file", "file": {"file_id": "file-1"}}
        parts = [image, bitmap, link, sound, pdf, table, zipped, foreign]
        request = to_anthropic([user(*parts)])
        check_anthropic(request)
        blocks = request["messages"][0]["content"]
        assert [block["type"] for block in blocks] == [
            "image", "text", "image", "text", "document", "document", "text", "text",
        ]  # fmt: skip
        assert blocks[5]["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b"}
        assert blocks[3] == text("[audio, not shown: audio/wav, 4 bytes]")
        assert "z.zip" in blocks[6]["text"] and "file-1" in blocks[7]["text"]
        check_responses(items := to_responses_input([user(*parts)]))
        assert [part["type"] for part in items[0]["content"]] == [
            "input_image", "input_image", "input_image", "input_text",
            "input_file", "input_file", "input_file", "input_file",
        ]  # fmt: skip
        check_gemini(contents := to_gemini([user(*parts)]))
        keys = [next(iter(part)) for part in contents["contents"][0]["parts"]]
        assert keys == ["inline_data"] * 2 + ["file_data"] + ["inline_data"] * 4 + ["text"]

    def test_the_name_of_a_speaker_is_part_of_what_is_said(self):
        named = USER | {"name": "ana"}
        assert to_anthropic([named])["messages"] == [user(text("ana: Hello."))]
        assert to_gemini([named])["contents"][0]["parts"] == [{"text": "ana: Hello."}]
        assert to_responses_input([named])[0]["content"] == "ana: Hello."


def recordable(*results: dict[str, Any]) -> list[dict[str, Any]]:
    ids = [one["tool_call_id"] for one in results]
    return [USER, calling(*(call(call_id, "f") for call_id in ids)), *results]


class TestResponses:
    def test_the_instructions_are_the_first_item(self):
        items = to_responses_input([SYSTEM, USER, ANSWER])
        check_responses(items)
        assert [item["role"] for item in items] == ["system", "user", "assistant"]
        assert [item["role"] for item in to_responses_input([SYSTEM])] == ["system", "user"]

    def test_reasoning_without_what_it_led_to_is_left_out(self):
        thought = {"type": "reasoning", "id": "rs", "summary": []}
        said = {"type": "message", "role": "assistant", "id": "msg", "content": []}
        items = responses(recorded({"type": "message", **USER}, thought, said))
        check_responses(items)
        assert [item["type"] for item in items] == ["message"]

    def test_ids_are_sent_only_with_the_reasoning_they_belong_to(self):
        call_item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c", "output": "1"}
        turn = [{"type": "message", **USER}, call_item | {"id": "fc"}, output]
        items = responses(recorded(*turn))
        check_responses(items)
        assert items == [{"type": "message", **USER}, call_item, output]

    def test_a_custom_tool_is_called_and_answered_as_one(self):
        patch = "*** Begin Patch\n+x\n"
        turn = [
            {"type": "message", **USER},
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": patch},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "Done."},
        ]
        messages = recorded(*turn)
        assert responses(messages) == turn
        check_responses(turn)
        check_responses(responses(turn_messages(turn[:2], "interrupted")))
        assert anthropic(messages)["messages"][1]["content"][0]["input"] == {"input": patch}

    def test_a_phase_is_sent_back_without_reasoning_too(self):
        said = {"type": "message", **ANSWER, "phase": "commentary"}
        items = responses(recorded({"type": "message", **USER}, said))
        check_responses(items)
        assert items[1] == said

    def test_a_long_call_id_is_shortened_in_call_and_output_alike(self):
        items = to_responses_input(recordable(result("x" * 65, "1")))
        check_responses(items)
        assert items[1]["call_id"] == items[2]["call_id"] != "x" * 65


class TestGemini:
    def test_the_instructions_and_tools_are_the_config(self):
        request = to_gemini([SYSTEM, USER], tools=[TOOL, {"google_search": {}}])
        check_gemini(request)
        assert request["config"]["system_instruction"] == "Be brief."
        declared, own = request["config"]["tools"]
        assert own == {"google_search": {}}
        assert declared["function_declarations"][0]["parameters_json_schema"]["type"] == "object"
        assert to_gemini([USER])["config"] == {}

    def test_it_begins_and_ends_with_the_user(self):
        request = to_gemini([ANSWER, calling(call("a", "f")), result("a", ""), ANSWER])
        check_gemini(request)
        roles = [content["role"] for content in request["contents"]]
        assert roles == ["user", "model", "user", "model", "user"]
        check_gemini(to_gemini([SYSTEM]))

    def test_responses_stand_apart_from_what_the_user_says_next(self):
        request = to_gemini([*recordable(result("a", "1"), result("b", "2")), USER])
        check_gemini(request)
        assert [len(content["parts"]) for content in request["contents"]] == [1, 2, 2, 1]

    @pytest.mark.parametrize(
        ("said", "response"),
        [
            ("plain", {"output": "plain"}),
            ('{"a": 1}', {"a": 1}),
            ("[1]", {"output": "[1]"}),
            ("", {"output": ""}),
        ],
    )
    def test_a_result_is_an_object(self, said: str, response: dict[str, Any]):
        request = to_gemini(recordable(result("a", said)))
        check_gemini(request)
        assert request["contents"][2]["parts"][0]["function_response"]["response"] == response

    def test_a_call_of_another_model_says_that_nothing_signed_it(self):
        request = to_gemini(recordable(result("a", "1"), result("b", "2")))
        first, second = request["contents"][1]["parts"]
        assert first["thought_signature"] == b"skip_thought_signature_validator"
        assert "thought_signature" not in second
        signed = {"function_call": {"name": "f", "args": {}}, "thought_signature": b"own"}
        turn = [{"role": "model", "parts": [signed]}]
        turn += [{"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]}]
        request = gemini(recorded({"role": "user", "parts": [{"text": "x"}]}, *turn))
        assert request["contents"][1]["parts"] == [signed]

    def test_an_id_that_was_made_here_is_not_sent_and_is_the_same_each_time(self):
        called = {
            "role": "model",
            "parts": [{"function_call": {"name": "f", "args": {"a": 1}}}] * 2,
        }
        answer = {"function_response": {"name": "f", "response": {"output": "1"}}}
        turn = [called, {"role": "user", "parts": [answer] * 2}]
        messages = recorded(*turn)
        assert messages == recorded(*turn)
        ids = [one.id for one in messages[0].tool_calls]
        assert len(set(ids)) == 2 and [m.tool_call_id for m in messages[1:]] == ids
        assert "id" not in gemini(messages)["contents"][1]["parts"][0]["function_call"]

    def test_a_function_name_begins_with_a_letter(self):
        turn = [USER, calling(call("a", "2-find")), result("a", "")]
        request = to_gemini(turn)
        check_gemini(request)
        called = request["contents"][1]["parts"][0]["function_call"]["name"]
        assert re.match("[a-zA-Z_]", called)


WORDS = st.text(max_size=12) | st.sampled_from(["", " ", "\n", "x ", "\ud800", "\x00", "<a>", "{}"])
IDS = st.sampled_from(["a", "b", "call.1", "call_1", "x" * 70, "é"]) | st.text("ab|.", min_size=1)
BLOCKS = st.sampled_from(
    [
        {"type": "text", "text": ""},
        {"type": "text", "text": "said"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": "broken"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
)
CONTENT = st.none() | WORDS | st.lists(BLOCKS, max_size=3)
ARGUMENTS = st.sampled_from(["{}", "", "[]", '{"a": 1', '{"a": "\\ud800"}', "null"]) | WORDS
REASONING = st.lists(
    st.sampled_from(
        [
            {"provider": "anthropic", "block": {"type": "redacted_thinking", "data": "eA=="}},
            {"provider": "openai", "block": {"type": "reasoning", "id": "rs", "summary": []}},
            {"provider": "gemini", "block": {"text": "so", "thought": True}},
        ]
    ),
    max_size=2,
)


@st.composite
def messages_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Any sequence that may be recorded, whichever order of roles it has."""
    messages: list[dict[str, Any]] = []
    for role in draw(st.lists(st.sampled_from(["user", "assistant", "exchange"]), max_size=6)):
        if role == "exchange":
            ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
            calls = [
                {"id": i, "function": {"name": draw(IDS), "arguments": draw(ARGUMENTS)}}
                for i in ids
            ]
            thought = draw(REASONING)
            said = {"role": "assistant", "content": draw(CONTENT), "reasoning": thought}
            messages.append(said | {"tool_calls": calls})
            messages += [
                {"role": "tool", "tool_call_id": i, "content": draw(CONTENT)}
                for i in draw(st.permutations(ids))
            ]
        else:
            message = {"role": role, "content": draw(CONTENT), "reasoning": draw(REASONING)}
            name = draw(st.none() | st.just("ana"))
            messages.append(message | ({"name": name} if name and role == "user" else {}))
    return messages


@settings(max_examples=400, deadline=None)
@given(messages_of(), st.sets(st.integers(0, 8)))
def test_whatever_is_recorded_is_valid_everywhere(
    messages: list[dict[str, Any]], breakpoints: set[int]
):
    turn: tuple[Message, ...] = recorded(*messages) if messages else ()
    check_anthropic(anthropic(turn, breakpoints={n: (1, 2) for n in breakpoints}))
    check_responses(responses(turn))
    check_gemini(gemini(turn))
