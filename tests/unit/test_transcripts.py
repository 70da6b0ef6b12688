"""Reading recorded conversations: every format, where turns begin, errors that name places."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from durable_context.transcripts import (
    Transcript,
    TranscriptError,
    TranscriptTurn,
    read_transcripts,
    stretches,
)

HELLO = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


def call(call_id: str, name: str = "look_up") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def calling(*call_ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(i) for i in call_ids]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"result of {call_id}"}


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str, name: str = "talk.json") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return path

    return write


@pytest.fixture
def read(written):
    def one(value: object, name: str = "talk.json") -> Transcript:
        (transcript,) = read_transcripts(written(json.dumps(value), name))
        return transcript

    return one


@pytest.fixture
def refused(written):
    def error(text: str, name: str = "talk.json") -> str:
        with pytest.raises(TranscriptError) as caught:
            read_transcripts(written(text, name))
        return str(caught.value)

    return error


def roles(turn: TranscriptTurn) -> list[str]:
    return [message["role"] for message in turn.messages]


class TestFormsOfFiles:
    def test_a_list_of_messages_is_one_conversation_named_after_the_file(self, read):
        transcript = read(HELLO)
        assert transcript.name == "talk"
        assert [turn.messages for turn in transcript.turns] == [tuple(HELLO)]

    def test_an_object_with_messages_has_its_own_name_and_tools(self, read):
        tools = [{"type": "function", "function": {"name": "look_up"}}]
        transcript = read({"conversation_id": "c-7", "tools": tools, "messages": HELLO})
        assert transcript.name == "c-7"
        assert transcript.tools == tuple(tools)

    def test_a_list_of_conversations_gives_each(self, written):
        path = written(json.dumps([{"id": 12, "messages": HELLO}, HELLO]))
        assert [transcript.name for transcript in read_transcripts(path)] == ["12", "talk-2"]

    def test_json_lines_hold_a_conversation_per_line(self, written):
        lines = [{"trajectory_id": "a", "messages": HELLO}, {"messages": HELLO}, HELLO]
        path = written("\n".join(map(json.dumps, lines)) + "\n\n", "talk.jsonl")
        assert [t.name for t in read_transcripts(path)] == ["a", "talk-2", "talk-3"]

    def test_json_lines_may_hold_a_message_per_line(self, written):
        path = written("\n".join(map(json.dumps, [*HELLO, *HELLO])), "talk.jsonl")
        (transcript,) = read_transcripts(path)
        assert [roles(turn) for turn in transcript.turns] == [["user", "assistant"]] * 2

    def test_json_lines_are_recognised_without_their_suffix(self, written):
        path = written("\n".join(json.dumps({"messages": HELLO}) for _ in range(2)), "talk.txt")
        assert len(read_transcripts(path)) == 2

    def test_a_line_separator_inside_a_string_does_not_end_the_line(self, written):
        message = {"role": "user", "content": "one\u2028two\x85three"}
        path = written(json.dumps({"messages": [message]}, ensure_ascii=False), "talk.jsonl")
        (transcript,) = read_transcripts(path)
        assert transcript.turns[0].messages == (message,)

    def test_nul_bytes_and_lone_surrogates_are_only_text(self, written):
        path = written('[{"role": "user", "content": "a\\u0000b\\ud800"}]')
        (transcript,) = read_transcripts(path)
        assert transcript.turns[0].messages[0]["content"] == "a\x00b\ud800"

    def test_a_byte_order_mark_is_skipped(self, written):
        assert read_transcripts(written("\ufeff" + json.dumps(HELLO)))[0].name == "talk"

    def test_questions_and_answers_with_times(self, read):
        turns = [
            {"user": "Hey Mel!", "assistant": "Hey!", "timestamp": "1:56 pm on 8 May, 2023"},
            {"user": None, "assistant": "Still there?", "timestamp": "2023-05-09T10:00:00+02:00"},
            {"user": "Yes", "assistant": None, "timestamp": 1683705600},
        ]
        transcript = read({"conversation_id": "mel", "turns": turns})
        assert [roles(turn) for turn in transcript.turns] == [
            ["user", "assistant"],
            ["assistant"],
            ["user"],
        ]
        assert [turn.occurred_at for turn in transcript.turns] == [
            datetime(2023, 5, 8, 13, 56, tzinfo=UTC),
            datetime(2023, 5, 9, 8, tzinfo=UTC),
            datetime(2023, 5, 10, 8, tzinfo=UTC),
        ]


class TestTurns:
    def test_a_user_message_starts_a_turn_and_consecutive_ones_share_it(self, read):
        user = {"role": "user", "content": "and"}
        transcript = read([*HELLO, user, user, HELLO[1], user])
        assert [roles(turn) for turn in transcript.turns] == [
            ["user", "assistant"],
            ["user", "user", "assistant"],
            ["user"],
        ]
        assert transcript.turns[1].user_messages == (user, user)

    def test_an_assistant_may_speak_first(self, read):
        transcript = read([HELLO[1], *HELLO])
        assert [roles(turn) for turn in transcript.turns] == [["assistant"], ["user", "assistant"]]
        assert transcript.turns[0].user_messages == ()

    def test_leading_system_messages_are_the_instructions(self, read):
        system = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "!"}]
        transcript = read([*system, *HELLO])
        assert transcript.system == "Be brief.\n\n!"
        assert roles(transcript.turns[0]) == ["user", "assistant"]

    def test_a_later_system_message_adds_to_the_instructions_from_then_on(self, read):
        system = {"role": "system", "content": "Be brief."}
        late = {"role": "system", "content": [{"type": "text", "text": "Be kind."}]}
        transcript = read([system, *HELLO, late, *HELLO])
        assert [turn.system for turn in transcript.turns] == [
            "Be brief.",
            "Be brief.\n\nBe kind.",
        ]
        assert transcript.system == "Be brief."

    def test_an_unfinished_tool_exchange_interrupts_the_turn(self, read):
        messages = [HELLO[0], calling("a", "b"), result("a")]
        transcript = read([*messages, *HELLO, *messages])
        assert [turn.outcome for turn in transcript.turns] == [
            "interrupted",
            "complete",
            "interrupted",
        ]

    def test_a_result_that_comes_too_late_is_refused_with_its_place(self, refused):
        messages = [HELLO[0], calling("a", "b"), result("a"), HELLO[1], result("b")]
        assert "message 5: the result of tool call 'b'" in refused(json.dumps(messages))

    def test_times_of_messages_become_the_times_of_turns(self, read):
        transcript = read([{**HELLO[0], "timestamp": "2025-03-03T08:12:00Z"}, HELLO[1], HELLO[0]])
        assert transcript.turns[0].occurred_at == datetime(2025, 3, 3, 8, 12, tzinfo=UTC)
        assert transcript.turns[0].messages == tuple(HELLO)
        assert transcript.turns[1].occurred_at is None


class TestStretches:
    def turn(self, read, *messages: dict[str, Any]) -> TranscriptTurn:
        (turn,) = read([HELLO[0], *messages]).turns
        return turn

    def exchanges(self, count: int) -> list[dict[str, Any]]:
        return [m for i in range(count) for m in (calling(f"c{i}"), result(f"c{i}"))]

    def test_a_long_run_is_cut_after_complete_exchanges(self, read):
        turn = self.turn(read, *self.exchanges(5), HELLO[1])
        parts = stretches(turn, 2)
        assert [len(part.messages) for part in parts] == [5, 4, 3]
        assert [part.continues for part in parts] == [True, True, False]
        assert tuple(m for part in parts for m in part.messages) == turn.messages

    def test_parallel_calls_are_one_exchange(self, read):
        turn = self.turn(read, calling("a", "b"), result("b"), result("a"), HELLO[1])
        assert [roles(part) for part in stretches(turn, 1)] == [
            ["user", "assistant", "tool", "tool"],
            ["assistant"],
        ]

    def test_a_run_that_ends_in_a_result_leaves_no_empty_stretch(self, read):
        turn = self.turn(read, *self.exchanges(4))
        assert [part.continues for part in stretches(turn, 2)] == [True, False]

    def test_only_the_stretch_with_the_missing_result_is_interrupted(self, read):
        turn = self.turn(read, *self.exchanges(2), calling("late"))
        assert [part.outcome for part in stretches(turn, 1)] == [
            "complete",
            "complete",
            "interrupted",
        ]

    def test_a_turn_without_tools_stays_whole(self, read):
        turn = self.turn(read, HELLO[1])
        assert stretches(turn, 1) == (turn,)
        assert stretches(turn, None) == (turn,)

    def test_a_stretch_has_at_least_one_exchange(self, read):
        with pytest.raises(ValueError, match="exchanges is 0"):
            stretches(self.turn(read, HELLO[1]), 0)


class TestAnthropicFormat:
    def blocks(self, role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
        return {"role": role, "content": list(blocks)}

    def test_tool_blocks_become_calls_and_tool_messages(self, read):
        use = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"q": "é"}}
        answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "none"}
        transcript = read(
            {
                "system": "Be brief.",
                "tools": [{"name": "find", "description": "d", "input_schema": {"type": "object"}}],
                "messages": [
                    {"role": "user", "content": "where?"},
                    self.blocks("assistant", {"type": "text", "text": "Looking."}, use),
                    self.blocks("user", {**answer, "is_error": True}),
                    self.blocks("assistant", {"type": "text", "text": "Nowhere."}),
                ],
            }
        )
        assert transcript.system == "Be brief."
        assert transcript.tools == (
            {
                "type": "function",
                "function": {"name": "find", "description": "d", "parameters": {"type": "object"}},
            },
        )
        (turn,) = transcript.turns
        assert turn.messages[1:] == (
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "find", "arguments": '{"q": "é"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "none", "is_error": True},
            {"role": "assistant", "content": "Nowhere."},
        )

    def test_text_beside_a_result_starts_the_next_turn(self, read):
        transcript = read(
            [
                HELLO[0],
                self.blocks("assistant", {"type": "tool_use", "id": "t", "name": "n", "input": {}}),
                self.blocks(
                    "user",
                    {"type": "tool_result", "tool_use_id": "t", "content": []},
                    {"type": "text", "text": "Stop!"},
                ),
            ]
        )
        assert [roles(turn) for turn in transcript.turns] == [
            ["user", "assistant", "tool"],
            ["user"],
        ]
        assert transcript.turns[1].messages[0]["content"] == "Stop!"

    def test_system_blocks_images_and_thinking_are_kept(self, read):
        image = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
        transcript = read(
            {
                "system": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
                "messages": [
                    self.blocks(
                        "user",
                        {"type": "image", "source": image},
                        {"type": "text", "text": "What is this?"},
                    ),
                    self.blocks(
                        "assistant",
                        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                        {"type": "text", "text": "A cat."},
                    ),
                ],
            }
        )
        assert transcript.system == "One.\n\nTwo."
        user, assistant = transcript.turns[0].messages
        assert user["content"] == [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "What is this?"},
        ]
        assert assistant["content"] == "A cat."
        assert assistant["reasoning"][0]["block"]["signature"] == "s"

    def test_an_unknown_block_is_named_with_its_place(self, refused):
        messages = [self.blocks("user", {"type": "tool_use"}, {"type": "hologram"})]
        error = refused(json.dumps([messages]))
        assert "conversation 1, message 1" in error
        assert "'hologram'" in error and "tool_result" in error


class TestOtherFormats:
    def test_items_of_responses_become_turns(self, read):
        parameters = {"type": "object", "properties": {}}
        transcript = read(
            {
                "instructions": "Be brief.",
                "tools": [{"type": "function", "name": "find", "parameters": parameters}],
                "input": [
                    {"role": "user", "content": "where?"},
                    {"type": "reasoning", "id": "rs", "summary": []},
                    {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "none"},
                    {"type": "message", "role": "assistant", "content": "Nowhere."},
                    {"type": "message", "role": "user", "content": "Thanks."},
                ],
            }
        )
        assert transcript.system == "Be brief."
        assert transcript.tools == (
            {"type": "function", "function": {"name": "find", "parameters": parameters}},
        )
        assert [roles(turn) for turn in transcript.turns] == [
            ["user", "assistant", "tool", "assistant"],
            ["user"],
        ]
        assert transcript.turns[0].messages[1]["reasoning"][0]["call_id"] == "c"

    def test_contents_of_gemini_become_turns(self, read):
        called = {"functionCall": {"name": "find", "args": {"q": 1}}, "thoughtSignature": "cw=="}
        answered = {"functionResponse": {"name": "find", "response": {"output": "none"}}}
        transcript = read(
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "tools": [{"functionDeclarations": [{"name": "find", "description": "d"}]}],
                "contents": [
                    {"role": "user", "parts": [{"text": "where?"}]},
                    {"role": "model", "parts": [called]},
                    {"role": "user", "parts": [answered]},
                    {"role": "model", "parts": [{"text": "Nowhere."}]},
                ],
            }
        )
        assert transcript.system == "Be brief."
        assert transcript.tools == (
            {"type": "function", "function": {"name": "find", "description": "d"}},
        )
        (turn,) = transcript.turns
        assert roles(turn) == ["user", "assistant", "tool", "assistant"]
        assert turn.messages[2]["tool_call_id"] == turn.messages[1]["tool_calls"][0]["id"]

    def test_lines_may_be_items(self, read, written):
        lines = [
            {"type": "message", "role": "user", "content": "where?"},
            {"type": "function_call", "call_id": "c", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "none"},
        ]
        (transcript,) = read_transcripts(written("\n".join(map(json.dumps, lines)), "t.jsonl"))
        assert roles(transcript.turns[0]) == ["user", "assistant", "tool"]

    def test_what_is_wrong_is_named_with_its_place(self, refused):
        items = [HELLO[0], {"type": "function_call", "name": "find", "arguments": "{}"}]
        assert "message 2: a function_call needs 'call_id'" in refused(json.dumps(items))


class TestErrors:
    def test_a_missing_file_is_named(self, tmp_path: Path):
        with pytest.raises(TranscriptError, match=r"nowhere\.json: cannot be read: No such file"):
            read_transcripts(tmp_path / "nowhere.json")

    def test_an_empty_file_says_what_is_expected(self, refused):
        assert 'an object with "messages"' in refused(" \n")

    def test_bytes_that_are_not_utf_8_are_located(self, tmp_path: Path):
        path = tmp_path / "latin.json"
        path.write_bytes(b'["\xe9"]')
        with pytest.raises(TranscriptError, match="byte 2 is not UTF-8"):
            read_transcripts(path)

    def test_broken_json_is_located(self, refused):
        assert re.search(r"not JSON: .*line 2 column \d", refused('[\n1, ]x"'))
        line = refused(json.dumps({"messages": HELLO}) + "\n{oops", "talk.jsonl")
        assert "talk.jsonl, line 2: not JSON" in line

    def test_deep_nesting_is_an_error_and_not_a_crash(self, refused):
        assert "not JSON" in refused("[" * 100_000)

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (3, "a JSON int is not a conversation"),
            ({"dialogue": []}, "an object with ['dialogue'] is not a conversation"),
            ({"messages": {}}, '"messages" must be a list of at least one message'),
            ([], '"messages" must be a list of at least one message'),
            ([HELLO[0], 5], "message 2: 5 is not a message"),
            ([HELLO[0], {"role": "robot"}], "message 2: role 'robot' is not one of system, dev"),
            ([{"role": "user", "content": 5}], "content 5 is neither text nor a list of parts"),
            ([{"role": "system", "content": "x"}], "no message of a user or an assistant"),
            ([HELLO[0], result("a")], "message 2: the result of tool call 'a'; a result follows"),
            ([HELLO[0], {"role": "tool"}], 'a tool message needs a "tool_call_id"'),
            ([{**HELLO[0], "tool_calls": [call("a")]}], "a user message cannot have tool calls"),
            ([{"role": "assistant", "tool_calls": [{"id": 1}]}], "must be a list of"),
            ([{**HELLO[0], "timestamp": "noon"}], "\"timestamp\" is 'noon'; a time is in ISO 8601"),
            ({"id": [], "messages": HELLO}, '"id" is []; an id is text or a number'),
            ({"tools": "all", "messages": HELLO}, "\"tools\" is 'all'; it must be a list"),
            ({"system": 4, "messages": HELLO}, '"system" is 4; it must be text or'),
            ({"turns": [{"question": "?"}]}, 'turn 1: a turn is an object with "user" or'),
        ],
    )
    def test_what_is_wrong_is_named_with_what_is_allowed(self, refused, value, expected):
        error = refused(json.dumps(value))
        assert "talk.json" in error
        assert expected in error

    def test_a_bad_line_among_messages_is_located(self, refused):
        lines = [*HELLO, {"rôle": "user"}]
        error = refused("\n".join(map(json.dumps, lines)), "talk.jsonl")
        assert "line 3: role None is not one of" in error

    def test_two_conversations_of_one_name_are_refused(self, refused):
        error = refused(json.dumps([{"id": "a", "messages": HELLO}] * 2))
        assert "conversation 2: the name 'a' is that of" in error
        assert "conversation 1 too" in error
