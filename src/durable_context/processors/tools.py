"""Tools that let a model read and write the context it works in: a list of things to do, and what
was offloaded.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, cast

from durable_context.errors import ContextError, InvalidArgument
from durable_context.processors.offloaded import RELOAD_TOOL, offloaded_content
from durable_context.processors.pipeline import is_context
from durable_context.showing import shown
from durable_context.tools.arguments import (
    checked,
    closed_object,
    integer,
    parse_arguments,
    text,
)

if TYPE_CHECKING:
    from durable_context.processors.context import Context

TODOS: Final = "todos"


class StateTool:
    """A tool of the context that it is bound to. `parameters` is a JSON Schema."""

    def __init__(
        self,
        name: str,
        description: str,
        schema: Mapping[str, Any],
        answer: "Callable[..., Awaitable[str]]",
    ) -> None:
        self.name = name
        self.description = description
        self._schema = schema
        self._answer = answer
        self._ctx: Context | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        schema = deepcopy(dict(self._schema))
        if not schema["required"]:
            del schema["required"]
        return schema

    def bind(self, ctx: "Context") -> "StateTool":
        """Returns the tool, which belongs to that context from now on. Raises ContextError."""
        if not is_context(ctx):
            raise ContextError(f"ctx={shown(ctx)}; it must be a Context")
        self._ctx = ctx
        return self

    async def execute(self, /, **arguments: object) -> str:
        """The answer to these arguments, as `answer` gives it."""
        return await self.answer(arguments)

    async def answer(self, arguments: object) -> str:
        """The answer to arguments as a provider hands them over: an object, or its JSON text.
        Wrong ones are answered, never raised, since they are the model's.

        Raises ContextError where no context is bound, or its state is not what the tool wrote; what
        reading artifacts raises where they cannot be reached.
        """
        if self._ctx is None:
            raise ContextError(
                f"Tool {self.name!r} requires a bound context (call .bind(ctx) first)"
            )
        try:
            given = checked(parse_arguments(arguments), self._schema)
        except InvalidArgument as error:
            return f"{self.name} cannot do this: {error}"
        return await self._answer(self._ctx, **given)

    def to_openai(self) -> dict[str, Any]:
        """The tool as OpenAI's chat completions take it, and as `Budget(tools=...)` counts it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}

    def to_schema(self) -> dict[str, Any]:
        """The same, by the name it has in the original."""
        return self.to_openai()

    def to_anthropic(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.parameters,
        }

    def __repr__(self) -> str:
        return f"StateTool({self.name!r})"


def get_context_tools() -> list[StateTool]:
    """New tools, bound to no context: add_todo, complete_todo, get_todo, reload_offloaded.

    The first three keep `state["todos"]`, a list of `{"item", "done"}`.
    """
    return [StateTool(name, does, schema, answer) for name, does, schema, answer in _TOOLS]


async def _add_todo(ctx: "Context", item: str) -> str:
    ctx.state.set(TODOS, [*_todos(ctx), {"item": item, "done": False}])
    return f"Added todo: {item}"


async def _complete_todo(ctx: "Context", index: int) -> str:
    todos = _todos(ctx)
    if not todos:
        return "No todos found."
    if not 0 <= index < len(todos):
        return f"Invalid index {index}. Have {len(todos)} todos."
    todos[index] = {**todos[index], "done": True}
    ctx.state.set(TODOS, todos)
    return f"Marked todo #{index} as done: {todos[index]['item']}"


async def _get_todo(ctx: "Context") -> str:
    lines = (
        f"{number}. [{'x' if todo.get('done') else ' '}] {todo['item']}"
        for number, todo in enumerate(_todos(ctx))
    )
    return "\n".join(lines) or "No todos."


async def _reload_offloaded(ctx: "Context", handle: str) -> str:
    content = await offloaded_content(ctx, handle)
    return f"Offload handle {shown(handle)} not found." if content is None else content


def _todos(ctx: "Context") -> list[Mapping[str, Any]]:
    """A new list. Raises ContextError where the state holds something else there."""
    todos: object = ctx.state.get(TODOS)
    listed = cast("Sequence[object]", todos) if isinstance(todos, list | tuple) else ()
    if todos and not (listed and all(map(_is_todo, listed))):
        raise ContextError(
            f"state[{TODOS!r}] is {shown(cast(object, todos))}; it must be a list of dicts with"
            " 'item' and 'done'"
        )
    return list(cast("Sequence[Mapping[str, Any]]", listed))


def _is_todo(todo: object) -> bool:
    return isinstance(todo, Mapping) and "item" in todo


_TOOLS: Final[tuple[tuple[str, str, dict[str, Any], Callable[..., Awaitable[str]]], ...]] = (
    (
        "add_todo",
        "Add an item to the list of things to do.",
        closed_object(("item",), item=text("What is to be done.")),
        _add_todo,
    ),
    (
        "complete_todo",
        "Mark an item of the list of things to do as done.",
        closed_object(("index",), index=integer("Its number in the list, from 0.", minimum=0)),
        _complete_todo,
    ),
    ("get_todo", "Show the list of things to do.", closed_object(), _get_todo),
    (
        RELOAD_TOOL,
        "Read content that was moved out of the conversation, which shows"
        " [[OFFLOADED: handle=off_...]] in its place.",
        closed_object(("handle",), handle=text("The handle as it is shown: off_ and 12 digits.")),
        _reload_offloaded,
    ),
)
