"""The agent's own tools: what they are to a provider, what they refuse and how much they say."""

import json
import re
from typing import Any
from uuid import uuid4

import pytest

from durable_context import Budget, CompactionPolicy, ContextClient
from durable_context.branch import Branch
from durable_context.errors import DatabaseUnavailable, InvalidArgument
from durable_context.models import ToolCall
from durable_context.tools.context_tools import ContextTool, get_context_tools, run_tool_call
from tests.tool_answers import COUNTER, LINES, body, by_name
from tests.turns import call, calling, chat, numbered

NAMES = ["reload_artifact", "list_artifacts", "search_history", "expand_summary"]


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("c")


@pytest.fixture
def tools(branch: Branch) -> dict[str, ContextTool]:
    return by_name(branch)


def test_there_are_four_tools_with_closed_schemas(tools: dict[str, ContextTool]):
    assert list(tools) == NAMES
    for tool in tools.values():
        check_schema(tool.parameters)
        assert tool.to_openai() == {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        assert tool.to_anthropic() == {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name)
    required = {name: tool.parameters["required"] for name, tool in tools.items()}
    assert required == {
        "reload_artifact": ["handle"],
        "list_artifacts": [],
        "search_history": ["query"],
        "expand_summary": [],
    }


def check_schema(schema: dict[str, Any]) -> None:
    """A JSON Schema that every provider takes: an object of texts and integers, closed."""
    assert set(schema) == {"type", "properties", "required", "additionalProperties"}
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert set(schema["required"]) <= set(schema["properties"])
    for field in schema["properties"].values():
        assert field["description"]
        bounds = {"string": {"minLength"}, "integer": {"minimum", "maximum"}}[field["type"]]
        assert {"type", "description"} <= set(field) <= {"type", "description"} | bounds
    assert json.loads(json.dumps(schema)) == schema


def test_definitions_are_copies_and_cost_few_tokens(tools: dict[str, ContextTool]):
    definitions = tuple(tool.to_openai() for tool in tools.values())
    definitions[0]["function"]["parameters"]["properties"]["handle"]["type"] = "changed"
    assert tools["reload_artifact"].parameters["properties"]["handle"]["type"] == "string"
    assert COUNTER.count_tools([tool.to_openai() for tool in tools.values()]) < 720


async def test_a_budget_counts_the_definitions(branch: Branch, tools: dict[str, ContextTool]):
    definitions = tuple(tool.to_openai() for tool in tools.values())
    bare = await branch.prepare("hello", budget=Budget(max_tokens=4_000))
    full = await branch.prepare("hello", budget=Budget(max_tokens=4_000, tools=definitions))
    assert bare
    assert full
    assert full.token_count > bare.token_count + 400


WRONG: list[tuple[str, Any, str]] = [
    ("reload_artifact", {}, "handle is missing"),
    ("reload_artifact", {"handle": 7}, "handle is 7"),
    ("reload_artifact", {"handle": ""}, "handle is ''"),
    ("reload_artifact", {"handle": None}, "handle is missing"),
    ("reload_artifact", {"handle": "HANDLE", "start": 0}, "start is 0"),
    ("reload_artifact", {"handle": "HANDLE", "start": "12"}, "start is '12'"),
    ("reload_artifact", {"handle": "HANDLE", "start": True}, "start is True"),
    ("reload_artifact", {"handle": "HANDLE", "start": 1.5}, "start is 1.5"),
    ("reload_artifact", {"handle": "HANDLE", "length": -3}, "length is -3"),
    ("reload_artifact", {"handle": "HANDLE", "length": 2**40}, "length is 1099511627776"),
    ("reload_artifact", {"handle": "HANDLE", "grep": ["a"]}, "grep is ['a']"),
    ("reload_artifact", {"handle": "HANDLE", "path": "/etc"}, "there is no argument 'path'"),
    ("reload_artifact", {"handle": "HANDLE", "offset": 99}, "There is no character 100 in line 1"),
    ("reload_artifact", {"handle": "art_" + "x" * 22}, "reload_artifact cannot do this"),
    ("list_artifacts", {"name": {}}, "name is {}"),
    ("search_history", {"query": "   "}, "it must be text that says what to look for"),
    ("search_history", {"query": "x", "limit": 21}, "limit (an integer from 1 to 20)"),
    ("search_history", {"query": "x", "self": 1}, "there is no argument 'self'"),
    ("expand_summary", {}, "pass from_turn, with or without to_turn, or summary_id alone"),
    ("expand_summary", {"from_turn": 1, "summary_id": "x"}, "or summary_id alone"),
    ("expand_summary", {"to_turn": 3}, "pass from_turn"),
    ("expand_summary", {"from_turn": 5, "to_turn": 2}, "to_turn=2 is before from_turn=5"),
    ("expand_summary", {"from_turn": 7}, "There is no turn 7; the newest is turn 3."),
    ("expand_summary", {"from_turn": 1, "start": 99}, "There is no line 99 in turn 1."),
    ("expand_summary", {"summary_id": str(uuid4())}, "turn numbers do as well"),
    ("expand_summary", {"summary_id": "latest"}, "there is no summary 'latest'"),
    ("search_history", "{not json", "the arguments are no JSON"),
    ("search_history", "[" * 100_000, "the arguments are no JSON"),
    ("search_history", "[1]", "the arguments are [1]; they must be a JSON object"),
    ("search_history", '"query"', "they must be a JSON object"),
    ("search_history", "", "query is missing"),
    ("list_artifact", {}, "there are reload_artifact, list_artifacts, search_history, expand"),
]


async def test_a_wrong_call_is_answered_with_what_is_allowed(branch: Branch):
    for n in range(1, 4):
        await branch.record_turn(numbered(n))
    artifact = await branch.put_artifact("short", name="a")
    tools = get_context_tools(branch)
    for name, arguments, said in WRONG:
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments).replace("HANDLE", artifact.handle)
        function = {"name": name, "arguments": arguments}
        call = {"id": "c1", "type": "function", "function": function}
        message = await run_tool_call(tools, call)
        assert (message["role"], message["tool_call_id"]) == ("tool", "c1")
        assert said in message["content"], (name, arguments)
        assert "Traceback" not in message["content"]
        assert COUNTER.fits(message["content"], 900)
        assert await run_tool_call(tools, call) == message


async def test_null_stands_for_an_argument_that_is_not_given(
    branch: Branch, tools: dict[str, ContextTool]
):
    artifact = await branch.put_artifact("short", name="a")
    nothing: dict[str, Any] = {"start": None, "length": None, "grep": None, "offset": None}
    assert body(await tools["reload_artifact"](handle=artifact.handle, **nothing)) == "short"
    assert body(await tools["reload_artifact"](handle=artifact.handle, start=1.0)) == "short"


async def test_a_database_that_is_down_is_raised(database_url: str, client: ContextClient):
    broken = await ContextClient.connect(database_url, temporal=None)
    branch = await broken.open_branch("c")
    tools = get_context_tools(branch)
    await broken.close()
    for name, arguments in (
        ("reload_artifact", {"handle": "art_" + "x" * 22}),
        ("list_artifacts", {}),
        ("search_history", {"query": "depot"}),
        ("expand_summary", {"from_turn": 1}),
    ):
        call = ToolCall(id="c", name=name, arguments=json.dumps(arguments))
        with pytest.raises(DatabaseUnavailable):
            await run_tool_call(tools, call)


class SdkCall:
    """As an SDK hands it over."""

    def model_dump(self) -> dict[str, Any]:
        function = {"name": "list_artifacts", "arguments": "{}"}
        return {"id": "c1", "type": "function", "function": function}


@pytest.mark.parametrize(
    "tool_call",
    [
        {"id": "c1", "type": "function", "function": {"name": "list_artifacts", "arguments": "{}"}},
        {"id": "c1", "type": "function", "function": {"name": "list_artifacts"}},
        {"id": "c1", "type": "tool_use", "name": "list_artifacts", "input": {}},
        ToolCall(id="c1", name="list_artifacts", arguments=""),
        SdkCall(),
    ],
)
async def test_every_form_of_a_call_is_understood(branch: Branch, tool_call: Any):
    assert await run_tool_call(get_context_tools(branch), tool_call) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "There are no artifacts in this conversation yet.",
    }


@pytest.mark.parametrize("tool_call", [None, "list_artifacts", {"id": "c1"}, {"name": "x"}, 7])
async def test_what_is_no_call_is_the_callers_mistake(branch: Branch, tool_call: Any):
    with pytest.raises(InvalidArgument, match="is no tool call"):
        await run_tool_call(get_context_tools(branch), tool_call)


@pytest.mark.parametrize("max_tokens", [299, 0, -1, True, 1.5, "900"])
def test_a_bound_that_leaves_no_room_is_refused(branch: Branch, max_tokens: Any):
    with pytest.raises(InvalidArgument, match="at least 300"):
        get_context_tools(branch, max_tokens=max_tokens)


async def test_an_answer_that_is_recorded_becomes_no_artifact_again(
    branch: Branch, tools: dict[str, ContextTool]
):
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    for _ in range(8):
        await branch.record_turn(chat("word " * 500, "word " * 500))
    calls = [
        call("call_" + "x" * 40, "reload_artifact", handle=artifact.handle),
        call("call_" + "y" * 40, "expand_summary", from_turn=1, to_turn=8),
        call("call_" + "z" * 40, "search_history", query="word", limit=20),
    ]
    answers = [await run_tool_call(tuple(tools.values()), one) for one in calls]
    sizes = [COUNTER.count(answer["content"]) for answer in answers]
    assert sizes[0] > 800
    assert max(sizes) <= 900
    turn = await branch.record_turn(
        [{"role": "user", "content": "Look."}, calling(*calls), *answers]
    )
    assert [message.artifact for message in turn.messages] == [None] * 5
    assert [one.handle for one in await branch.artifacts()] == [artifact.handle]


async def test_the_bound_follows_the_policy_unless_it_is_given(make_client: Any):
    client = await make_client(CompactionPolicy(offload_tokens=3_000))
    branch = await client.open_branch("c")
    artifact = await branch.put_artifact(LINES, name="stock.txt")
    sizes = [
        COUNTER.count(await by_name(branch, **options)["reload_artifact"](handle=artifact.handle))
        for options in ({}, {"max_tokens": 2_000}, {"max_tokens": 300})
    ]
    assert 2_800 < sizes[0] <= 2_900
    assert 1_900 < sizes[1] <= 2_000
    assert 200 < sizes[2] <= 300
