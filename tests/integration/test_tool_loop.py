"""`python -m examples.tool_loop`: an agent finds what its prompt no longer shows, over HTTP."""

import json
import re
from collections.abc import Callable
from typing import Any

from durable_context import ContextClient, get_context_tools, processors, run_tool_call
from durable_context.database import Pool
from durable_context.processors import Context, ProcessorPipeline, ToolResultOffloader
from tests.cli.running import Ended, run_process
from tests.compacting import compact_all
from tests.model_server import ModelServer, ReceivedRequest, Reply
from tests.tool_answers import LINES
from tests.turns import exchange, numbered

QUESTION = "And where is the other one?"


def reply(message_of: Callable[[ReceivedRequest], dict[str, Any]]) -> Reply:
    """A completion whose message is made from the request."""

    def completion(request: ReceivedRequest) -> str:
        message = {"role": "assistant", "content": None} | message_of(request)
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        fields = {"id": "c", "object": "chat.completion", "created": 1, "model": "made-up"}
        return json.dumps(fields | {"choices": [choice]})

    return Reply(completion)


def calls(**calls: dict[str, Any]) -> dict[str, Any]:
    """An assistant message that calls tools, with ids that no other message has."""
    return {
        "tool_calls": [
            {
                "id": f"call_{name}_{len(json.dumps(arguments))}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in calls.items()
        ]
    }


def reads_what_was_found(request: ReceivedRequest) -> dict[str, Any]:
    handle = re.search(r"artifact (art_[\w-]{22})", request.body["messages"][-1]["content"])
    assert handle
    return calls(
        reload_artifact={"handle": handle[1], "grep": "P00450"}, expand_summary={"from_turn": 1}
    )


def answers_with_what_was_read(request: ReceivedRequest) -> dict[str, Any]:
    depot = re.search(r"P00450 stands in (depot \d)", request.text)
    assert depot
    return {"content": f"It stands in {depot[1]}."}


async def ask(server: ModelServer, database_url: str, *options: str) -> Ended:
    return await run_process(
        ["-m", "examples.tool_loop", QUESTION, "--conversation", "c", *options],
        {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "made-up",
            "DURABLE_CONTEXT_DATABASE_URL": database_url,
        },
    )


async def test_an_agent_finds_a_line_of_an_artifact_that_was_compacted_away(
    client: ContextClient, pool: Pool, database_url: str
):
    branch = await client.open_branch("c")
    await branch.record_turn(
        [
            {"role": "user", "content": "Fetch the stock."},
            *exchange("a", LINES, name="fetch_stock"),
            {"role": "assistant", "content": "I have the stock."},
        ]
    )
    for n in range(2, 12):
        await branch.record_turn(numbered(n))
    await compact_all(pool, branch.branch_uuid)
    async with ModelServer() as server:
        server.script(
            reply(lambda _: calls(search_history={"query": "pallet P00450"})),
            reply(reads_what_was_found),
            reply(answers_with_what_was_read),
        )
        ended = await ask(server, database_url)
    assert ended.code == 0, ended.errors
    assert ended.out == "It stands in depot 2.\n"
    first, second, third = server.requests
    assert "P00450 stands" not in first.text
    offered = [tool["function"]["name"] for tool in first.body["tools"]]
    assert offered == ["reload_artifact", "list_artifacts", "search_history", "expand_summary"]
    for request in (second, third):
        check_pairs(request.body["messages"])
        assert QUESTION in request.text
    searched, read, answered = await branch.turns(12)
    assert [turn.continues for turn in (searched, read, answered)] == [True, True, False]
    assert [m.role for m in searched.messages] == ["user", "assistant", "tool"]
    assert [m.role for m in read.messages] == ["assistant", "tool", "tool"]
    assert answered.messages[0].content == "It stands in depot 2."
    assert len(await branch.artifacts()) == 1


def check_pairs(messages: list[dict[str, Any]]) -> None:
    """Every call has its result right after it."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert not waiting


async def test_a_model_that_calls_tools_wrongly_is_told_so_and_goes_on(
    client: ContextClient, database_url: str
):
    branch = await client.open_branch("c")
    await branch.record_turn(numbered(1))
    wrong = calls(reload_artifact={"handle": "report.md"}, read_file={"path": "/etc/passwd"})
    wrong["tool_calls"][0]["function"]["arguments"] = "{broken"
    async with ModelServer() as server:
        server.script(reply(lambda _: wrong), reply(lambda _: {"content": "I cannot find it."}))
        ended = await ask(server, database_url)
    assert (ended.code, ended.out) == (0, "I cannot find it.\n")
    results = [m["content"] for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert "the arguments are no JSON" in results[0]
    assert results[1].startswith("There is no tool 'read_file'; there are reload_artifact, ")


async def test_a_budget_that_is_too_small_is_said_and_no_model_is_asked(
    client: ContextClient, database_url: str
):
    async with ModelServer() as server:
        ended = await ask(server, database_url, "--budget", "300")
    assert ended.code == 1
    assert "No answer" in ended.out
    assert server.count == 0


async def test_a_models_calls_of_the_branchs_tools_and_of_a_contexts_are_answered_in_one_loop(
    client: ContextClient,
):
    branch = await client.open_branch("c")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=200))
    turn = await branch.record_turn(
        [{"role": "user", "content": "Fetch the stock."}, *exchange("a", LINES)], pipeline=pipeline
    )
    handle = re.search(r"handle=(off_[0-9a-f]{12})", str(turn.messages[-1].content))
    assert handle
    ctx = await Context.from_branch(branch)
    bound = [tool.bind(ctx) for tool in processors.get_context_tools()]
    tools = [*get_context_tools(branch), *bound]
    asked = calls(
        reload_offloaded={"handle": handle[1]},
        search_history={"query": "pallet P00450"},
        add_todo={"item": "look at P00450"},
        find_it={},
    )
    said = [(await run_tool_call(tools, call))["content"] for call in asked["tool_calls"]]
    assert said[0] == LINES
    assert "P00450" in said[1]
    assert said[2] == "Added todo: look at P00450"
    assert said[3].endswith("expand_summary, add_todo, complete_todo, get_todo, reload_offloaded.")
    assert len({tool.to_openai()["function"]["name"] for tool in tools}) == len(tools)
