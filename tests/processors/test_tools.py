"""The tools a model has for the context it works in."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from durable_context.errors import ContextError
from durable_context.processors.context import Context
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.tools import StateTool, get_context_tools
from durable_context.tools.context_tools import run_tool_call


def tool(name: str, ctx: Context | None = None) -> StateTool:
    found = {each.name: each for each in get_context_tools()}[name]
    return found.bind(ctx) if ctx else found


def todo(*items: str) -> Context:
    ctx = Context("task-1")
    ctx.state.set("todos", [{"item": item, "done": False} for item in items])
    return ctx


def test_they_are_the_planning_tools_and_the_reload_tool_last() -> None:
    names = [each.name for each in get_context_tools()]
    assert names == ["add_todo", "complete_todo", "get_todo", "reload_offloaded"]


def test_each_call_gives_new_tools_so_that_no_binding_leaks() -> None:
    first, second = get_context_tools(), get_context_tools()
    assert not {id(each) for each in first} & {id(each) for each in second}
    first[0].parameters["properties"].clear()
    assert second[0].parameters["properties"]


def test_bind_returns_the_tool() -> None:
    add = tool("add_todo")
    assert add.bind(Context("task-1")) is add


async def test_a_tool_that_is_not_bound_says_so() -> None:
    with pytest.raises(
        ContextError,
        match=r"^Tool 'add_todo' requires a bound context \(call \.bind\(ctx\) first\)$",
    ):
        await tool("add_todo").execute(item="A")


def test_schemas_name_the_arguments_and_never_the_context() -> None:
    for each in get_context_tools():
        assert "ctx" not in each.parameters["properties"]
        assert each.parameters["type"] == "object"
        assert each.description
    assert tool("add_todo").parameters["required"] == ["item"]
    assert tool("reload_offloaded").parameters["required"] == ["handle"]
    assert "required" not in tool("get_todo").parameters


@pytest.mark.parametrize("ctx", [None, "task-1", {"todos": []}])
def test_a_tool_is_bound_to_a_context_only(ctx: Any) -> None:
    with pytest.raises(ContextError, match=r"^ctx=.*; it must be a Context$"):
        tool("add_todo").bind(ctx)


async def test_what_has_a_state_and_a_config_is_a_context() -> None:
    ctx = Context("task-1")
    alike: Any = SimpleNamespace(state=ctx.state, config=ctx.config)
    assert await tool("add_todo").bind(alike).execute(item="A") == "Added todo: A"


def test_openai_and_anthropic_take_the_tool_each_in_its_form() -> None:
    add = tool("add_todo")
    assert add.to_anthropic() == {
        "name": "add_todo",
        "description": add.description,
        "input_schema": add.parameters,
    }
    assert add.to_schema() == add.to_openai()
    assert add.to_openai() == {
        "type": "function",
        "function": {
            "name": "add_todo",
            "description": add.description,
            "parameters": add.parameters,
        },
    }


async def test_items_are_added_in_order() -> None:
    ctx = Context("task-1")
    assert await tool("add_todo", ctx).execute(item="A") == "Added todo: A"
    await tool("add_todo", ctx).execute(item="B")
    assert ctx.state.get("todos") == [{"item": "A", "done": False}, {"item": "B", "done": False}]


async def test_an_item_is_completed_by_its_number() -> None:
    ctx = todo("A", "B")
    assert await tool("complete_todo", ctx).execute(index=1) == "Marked todo #1 as done: B"
    assert [each["done"] for each in ctx.state.get("todos")] == [False, True]


async def test_without_items_none_can_be_completed() -> None:
    answer = await tool("complete_todo", Context("task-1")).execute(index=0)
    assert answer == "No todos found."


async def test_an_index_that_is_not_there_is_answered() -> None:
    assert await tool("complete_todo", todo("A")).execute(index=7) == (
        "Invalid index 7. Have 1 todos."
    )


async def test_the_list_is_shown_with_numbers_and_marks() -> None:
    ctx = todo("A", "B")
    await tool("complete_todo", ctx).execute(index=0)
    assert await tool("get_todo", ctx).execute() == "0. [x] A\n1. [ ] B"


async def test_an_empty_list_is_shown_as_none() -> None:
    assert await tool("get_todo", Context("task-1")).execute() == "No todos."


async def test_what_other_fields_an_item_has_stays() -> None:
    ctx = Context("task-1")
    ctx.state.set("todos", [{"item": "A", "done": False, "status": "PENDING"}])
    await tool("complete_todo", ctx).execute(index=0)
    assert ctx.state.get("todos") == [{"item": "A", "done": True, "status": "PENDING"}]


async def test_a_child_never_changes_its_parents_list() -> None:
    parent = todo("A")
    child = parent.fork("child")
    await tool("complete_todo", child).execute(index=0)
    await tool("add_todo", child).execute(item="B")
    assert parent.state.get("todos") == [{"item": "A", "done": False}]


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("add_todo", {}, "item is missing"),
        ("add_todo", {"item": 7}, "item is 7"),
        ("add_todo", {"item": "A", "urgent": True}, "there is no argument 'urgent'"),
        ("complete_todo", {"index": "first"}, "index is 'first'"),
        ("complete_todo", {"index": -1}, "index is -1"),
        ("complete_todo", {"index": True}, "index is True"),
        ("get_todo", {"self": 1}, "there is no argument 'self'"),
        ("reload_offloaded", {"handle": None}, "handle is missing"),
    ],
)
async def test_wrong_arguments_are_answered_and_never_raised(
    name: str, arguments: dict[str, Any], answer: str
) -> None:
    ctx = todo("A")
    told = await tool(name, ctx).execute(**arguments)
    assert told.startswith(f"{name} cannot do this: {answer}")
    assert ctx.state.get("todos") == [{"item": "A", "done": False}]


@pytest.mark.parametrize("arguments", [{"item": "A"}, '{"item": "A"}'])
async def test_a_providers_arguments_are_taken_as_an_object_and_as_text(arguments: object) -> None:
    assert await tool("add_todo", Context("task-1")).answer(arguments) == "Added todo: A"


@pytest.mark.parametrize("arguments", [None, "", "{}", {}])
async def test_a_tool_without_arguments_is_called_in_any_way(arguments: object) -> None:
    assert await tool("get_todo", todo("A")).answer(arguments) == "0. [ ] A"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("{broken", "the arguments are no JSON"),
        ("[1]", "the arguments are [1]; they must be a JSON object"),
        (7, "the arguments are 7; they must be a JSON object"),
        ('{"item": "", "\\ud800": 1}', "item is ''; there is no argument"),
    ],
)
async def test_arguments_that_are_none_are_answered_in_words_that_can_be_sent(
    arguments: object, answer: str
) -> None:
    told = await tool("add_todo", Context("task-1")).answer(arguments)
    assert told.startswith(f"add_todo cannot do this: {answer}")
    assert told.encode()


async def test_a_models_call_is_answered_with_a_tool_message() -> None:
    ctx = Context("task-1")
    tools = [each.bind(ctx) for each in get_context_tools()]
    arguments = json.dumps({"item": "A"})
    call = {"id": "c1", "function": {"name": "add_todo", "arguments": arguments}}
    said = {"role": "tool", "tool_call_id": "c1", "content": "Added todo: A"}
    assert await run_tool_call(tools, call) == said


async def test_the_reload_tool_answers_with_the_whole_content() -> None:
    ctx = Context("task-1")
    ctx.state.set("history", [{"role": "user", "content": "x" * 50}])
    await MessageOffloader(max_message_size=10).process(ctx, {})
    (handle,) = ctx.state.get("offloaded_messages")
    assert await tool("reload_offloaded", ctx).execute(handle=handle) == "x" * 50


async def test_the_reload_tool_answers_unknown_handles_in_words() -> None:
    answer = await tool("reload_offloaded", Context("task-1")).execute(handle="off_0123456789ab")
    assert answer == "Offload handle 'off_0123456789ab' not found."


async def test_a_list_that_is_none_is_an_error_of_the_caller() -> None:
    ctx = Context("task-1")
    ctx.state.set("todos", "buy milk")
    with pytest.raises(ContextError, match=r"todos.*'buy milk'.*must be a list"):
        await tool("get_todo", ctx).execute()
