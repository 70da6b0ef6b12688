"""Messages of unusual classes and with unusual values: changed in copies, or named in an error."""

import time
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict

from durable_context.errors import ProcessorError
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import called, calls_of, tool_exchanges, with_content
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.pipeline import ContextProcessor
from durable_context.processors.round_window import RoundWindowProcessor
from durable_context.processors.summarize import SummarizeProcessor
from durable_context.processors.token_budget import TokenBudgetProcessor
from tests.turns import call, calling, result

ASKED = {"role": "user", "content": "go"}
SAID = {"role": "assistant", "content": "done"}
LONG = "word " * 10


class Named(NamedTuple):
    role: str
    content: Any


class Part(NamedTuple):
    text: str
    type: str = "text"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    role: str
    content: Any


@dataclass(frozen=True)
class FrozenData:
    role: str
    content: Any
    seen: int = field(default=0, init=False)


@dataclass
class Data:
    role: str
    content: Any
    secret: InitVar[str]


class Sealed:
    def __init__(self, role: str, content: Any) -> None:
        self.__dict__.update(role=role, content=content)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} is sealed")


class Unwritable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def nested() -> Any:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


def cyclic() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["itself"] = found
    return found


def processors() -> list[ContextProcessor]:
    return [
        MessageOffloader(max_message_size=20),
        DialogueCompressor(),
        RoundWindowProcessor(max_rounds=1),
        SummarizeProcessor(),
    ]


def holding(*messages: Any) -> Context:
    ctx = Context("task-1")
    ctx.state["history"] = [ASKED, *messages, SAID, ASKED]
    return ctx


OF_ALL_KINDS = pytest.mark.parametrize(
    "message",
    [
        Named("user", LONG),
        Frozen(role="user", content=LONG),
        FrozenData("user", LONG),
        Data("user", LONG, "secret"),
        SimpleNamespace(role="user", content=LONG),
    ],
    ids=lambda message: type(message).__name__,
)


@OF_ALL_KINDS
def test_a_copy_with_another_content_is_of_the_same_class(message: Any):
    changed = with_content(message, "short")
    assert (type(changed), changed.role, changed.content) == (type(message), "user", "short")
    assert message.content == LONG


@OF_ALL_KINDS
async def test_large_messages_of_all_classes_are_offloaded(message: Any):
    ctx = holding(message)
    await MessageOffloader(max_message_size=20).process(ctx, {})
    assert ctx.state["history"][1].content.startswith("[[OFFLOADED: handle=off_")
    assert message.content == LONG


@pytest.mark.parametrize("part", [Part(LONG), SimpleNamespace(type="text", text=LONG)])
async def test_large_parts_of_all_classes_are_offloaded(part: Any):
    ctx = holding({"role": "user", "content": [part]})
    await MessageOffloader(max_message_size=20).process(ctx, {})
    (offloaded,) = ctx.state["history"][1]["content"]
    assert offloaded.text.startswith("[[OFFLOADED: handle=off_")
    assert part.text == LONG


class Marked(dict[str, Any]):
    pass


@pytest.mark.parametrize(("made", "expected"), [(MappingProxyType, dict), (Marked, Marked)])
def test_the_copy_of_a_dict_is_of_its_class_and_that_of_another_mapping_is_a_dict(
    made: Callable[[dict[str, Any]], Any], expected: type
):
    message = made({"role": "user", "content": LONG})
    changed = with_content(message, "short")
    assert (type(changed), changed) == (expected, {"role": "user", "content": "short"})
    assert message["content"] == LONG


@pytest.mark.parametrize("message", [Sealed("user", LONG), ("user", LONG)])
def test_a_message_that_no_one_can_change_is_named(message: Any):
    with pytest.raises(ProcessorError, match=r"has a 'content' that cannot be replaced"):
        with_content(message, "short")


@pytest.mark.parametrize("calls", [5, "abc", {"id": "a"}, b"abc"])
def test_calls_that_are_no_list_are_named(calls: Any):
    with pytest.raises(ProcessorError, match=r"^tool_calls=.*; they must be a list$"):
        tool_exchanges([{"role": "assistant", "tool_calls": calls}])


@pytest.mark.parametrize("arguments", [cyclic(), {(1, 2): 3}, nested(), {"a": Unwritable()}])
def test_arguments_that_json_cannot_hold_are_named_by_who_reads_them(arguments: Any):
    message = calling({"id": "a", "name": "find", "arguments": arguments})
    with pytest.raises(ProcessorError, match=r"^the arguments of 'find' are .* must be JSON$"):
        calls_of(message)
    assert called(message) == [("a", "find")]


@pytest.mark.parametrize("processor", processors(), ids=lambda each: each.name)
@pytest.mark.parametrize("arguments", [cyclic(), {(1, 2): 3}])
async def test_who_needs_no_arguments_reads_none(processor: ContextProcessor, arguments: Any):
    ctx = holding(calling({"id": "a", "name": "find", "arguments": arguments}), result("a", "x"))
    await processor.process(ctx, {})
    assert ctx.state["history"]


@pytest.mark.parametrize("content", [{"a": nested()}, Unwritable()])
@pytest.mark.parametrize("make", [MessageOffloader, TokenBudgetProcessor])
async def test_a_content_that_has_no_text_is_named(
    content: Any, make: Callable[[], ContextProcessor]
):
    ctx = holding({"role": "user", "content": content})
    before = list(ctx.state["history"])
    with pytest.raises(ProcessorError, match="cannot be written as text"):
        await make().process(ctx, {})
    assert ctx.state["history"] == before


async def test_parts_that_cannot_be_counted_are_named():
    ctx = holding({"role": "user", "content": [{"type": "custom", "x": nested()}]})
    with pytest.raises(ProcessorError, match="cannot be counted"):
        await TokenBudgetProcessor().process(ctx, {})


def test_many_parallel_calls_are_matched_quickly_in_any_order():
    ids = [f"call_{n}" for n in range(20_000)]
    calls = calling(*(call(one, "run") for one in ids))
    begun = time.perf_counter()
    (exchange,) = tool_exchanges([calls, *(result(one, "x") for one in reversed(ids))])
    assert time.perf_counter() - begun < 2
    assert exchange == (0, 20_001, False)


def test_ids_that_are_left_out_and_used_twice_take_the_first_call_that_waits():
    calls = calling(*({"id": one, "name": "run", "arguments": "{}"} for one in "aba"))
    results: list[Any] = [{"role": "tool", "content": "x"}, result("a", "x"), result("b", "x")]
    assert tool_exchanges([calls, *results]) == [(0, 4, False)]
    assert tool_exchanges([calls, *results[1:]]) == [(0, 3, True)]
    assert tool_exchanges([calls, *results, result("a", "x")]) == [(0, 4, False)]
