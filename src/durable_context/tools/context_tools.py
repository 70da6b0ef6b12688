"""Tools for the agent itself: read what was offloaded, find and expand what was compacted.

An answer is text for the model. What the model gets wrong is answered, too; what is wrong with the
database or the object store is raised.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from durable_context.errors import ArtifactNotFound, InvalidArgument
from durable_context.models import ToolCall
from durable_context.policy import CompactionPolicy
from durable_context.text import clean
from durable_context.tokens import token_counter
from durable_context.tools.answering.answers import Answers
from durable_context.tools.answering.bound import Bound
from durable_context.tools.arguments import checked, closed_object, integer, parse_arguments, text

if TYPE_CHECKING:
    from durable_context.branch import Branch

SMALLEST_ANSWER = 300
"""Tokens below which an answer is mostly its own head."""
OVERHEAD = 100
"""Tokens of a tool message besides its content, generously: an answer is stored as it is, and not
offloaded as an artifact again.
"""
MOST_HITS = 20


class Tool(Protocol):
    """What `run_tool_call` asks: a ContextTool, a bound tool of `durable_context.processors`, or
    one of yours.
    """

    @property
    def name(self) -> str: ...

    async def answer(self, arguments: object) -> str:
        """`arguments` as a provider hands them over: an object, or its JSON text."""
        ...


@dataclass(frozen=True, slots=True)
class ContextTool:
    """A tool of one branch: `await tool(**arguments)` gives its answer. `parameters` is a closed
    JSON Schema.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    _answer: Callable[..., Awaitable[str]]
    _bound: Bound

    async def __call__(self, /, **arguments: object) -> str:
        """Wrong arguments are answered, never raised. Raises DatabaseUnavailable,
        ArtifactStoreUnavailable, ArtifactDamaged.
        """
        return await self.answer(arguments)

    async def answer(self, arguments: object) -> str:
        """The same with arguments as a provider hands them over: an object, or its JSON text."""
        try:
            given = checked(parse_arguments(arguments), self.parameters)
            return await self._answer(**given)
        except (ArtifactNotFound, InvalidArgument) as error:
            return self._bound.cut(clean(f"{self.name} cannot do this: {error}"))

    def to_openai(self) -> dict[str, Any]:
        """The tool as OpenAI's chat completions take it, and as `Budget(tools=...)` counts it."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": deepcopy(self.parameters),
        }
        return {"type": "function", "function": function}

    def to_anthropic(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": deepcopy(self.parameters),
        }


def get_context_tools(
    branch: "Branch", *, max_tokens: int | None = None
) -> tuple[ContextTool, ...]:
    """The tools of a branch: reload_artifact, list_artifacts, search_history, expand_summary.

    `max_tokens` bounds an answer. By default it is what a turn stores without offloading it: an
    answer that is larger becomes an artifact of its own when it is recorded. Raises
    InvalidArgument.
    """
    if max_tokens is None:
        max_tokens = answer_tokens(branch.policy)
    if not isinstance(max_tokens, int) or max_tokens < SMALLEST_ANSWER:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"max_tokens={max_tokens!r:.80}; at least {SMALLEST_ANSWER}")
    bound = Bound(max_tokens, token_counter(branch.encoding))
    answers = Answers(branch, bound)
    return tuple(
        ContextTool(does.__name__, description, deepcopy(schema), partial(does, answers), bound)
        for does, description, schema in _TOOLS
    )


def answer_tokens(policy: CompactionPolicy) -> int:
    """What an answer may have so that it is not offloaded: `offload_tokens` less a margin."""
    return max(policy.offload_tokens - OVERHEAD, SMALLEST_ANSWER)


async def run_tool_call(tools: Sequence[Tool], call: object) -> dict[str, Any]:
    """The tool message that answers a call: to send, and to record.

    `call` is an OpenAI tool call (a dict, an SDK object or a ToolCall) or an Anthropic tool_use
    block. Raises InvalidArgument if it is none, and what a tool raises.
    """
    call_id, name, arguments = _call(call)
    for tool in tools:
        if tool.name == name:
            content = await tool.answer(arguments)
            break
    else:
        names = ", ".join(tool.name for tool in tools)
        content = f"There is no tool {name!r:.80}; there are {names}."
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _call(call: object) -> tuple[str, str, object]:
    if isinstance(call, ToolCall):
        return call.id, call.name, call.arguments
    fields = _fields(call)
    inner = _fields(fields.get("function")) or fields
    call_id, name = fields.get("id"), inner.get("name")
    if isinstance(call_id, str) and isinstance(name, str):
        return call_id, name, inner.get("input", inner.get("arguments"))
    raise InvalidArgument(
        f"{call!r:.120} is no tool call; expected is an OpenAI tool call with 'id' and 'function',"
        " or an Anthropic tool_use block"
    )


def _fields(value: object) -> Mapping[str, object]:
    """Those of a mapping or an SDK's object, else none."""
    dump = getattr(value, "model_dump", None)
    found: object = dump() if callable(dump) else value
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


_TOOLS: tuple[tuple[Callable[..., Awaitable[str]], str, dict[str, Any]], ...] = (
    (
        Answers.reload_artifact,
        "Read an artifact: a large tool result, message or file that the conversation shows as"
        " [artifact art_...] or [[OFFLOADED: handle=off_...]]. A long one comes in parts, and each"
        " part says how to go on.",
        closed_object(
            ("handle",),
            handle=text("The handle as it is shown."),
            start=integer("First line, 1 by default."),
            length=integer("Number of lines, by default as many as fit."),
            grep=text("Only lines that hold this text, in upper or lower case."),
            offset=integer("Characters of the first line to skip, for long lines.", minimum=0),
        ),
    ),
    (
        Answers.list_artifacts,
        "List the artifacts of this conversation, newest first, with handles and what they are.",
        closed_object(
            name=text("Only those of this name, with older versions."),
            start=integer("First in the list, 1 by default."),
        ),
    ),
    (
        Answers.search_history,
        "Search all of this conversation, also what was summarized, for words. Shows the turns and"
        " artifacts that match best, with excerpts.",
        closed_object(
            ("query",),
            query=text("Distinctive words: names, numbers, identifiers."),
            limit=integer("Number of hits, 5 by default.", maximum=MOST_HITS),
        ),
    ),
    (
        Answers.expand_summary,
        "Show turns as they were recorded, such as those behind a summary: [turns 7-12] is"
        " from_turn=7, to_turn=12.",
        closed_object(
            from_turn=integer("First turn."),
            to_turn=integer("Last turn, by default the first."),
            summary_id=text("A summary's id, instead of turns."),
            start=integer("Line of the first turn to go on from."),
        ),
    ),
)
