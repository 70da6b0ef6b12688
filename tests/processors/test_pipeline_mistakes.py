"""A processor or a call that is not what it should be: the error names it, and what is allowed."""

from types import SimpleNamespace
from typing import Any

import pytest

from durable_context.errors import ProcessorError
from durable_context.processors.context import Context
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor


class NotAsync(ContextProcessor):
    def __init__(self) -> None:
        super().__init__("e", name="hurried")

    def process(self, ctx: Context, payload: dict[str, Any]) -> Any:
        payload["called"] = True


class Forgetful(ContextProcessor):
    def __init__(self) -> None:
        pass

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None: ...


class OnItsOwn(ContextProcessor):
    """Says itself what the base class would have said."""

    event = "e"  # type: ignore[assignment]
    name = "own"  # type: ignore[assignment]

    def __init__(self) -> None:
        pass

    def process(self, ctx: Context, payload: dict[str, Any]) -> Any:
        return self._answer(payload)

    async def _answer(self, payload: dict[str, Any]) -> None:
        payload["called"] = True


async def test_a_process_that_is_not_async_is_named():
    pipeline = ProcessorPipeline().register(NotAsync())
    with pytest.raises(ProcessorError, match=r"NotAsync.*hurried.*returned None.*`async def`"):
        await pipeline.fire("e", Context("task"))


def test_a_processor_without_an_event_is_named_when_it_is_registered():
    with pytest.raises(ProcessorError, match=r"Forgetful.*super\(\).__init__\(event\)"):
        ProcessorPipeline().register(Forgetful())


async def test_a_processor_may_say_its_event_itself_and_return_what_is_awaited():
    payload: dict[str, Any] = {}
    await ProcessorPipeline().register(OnItsOwn()).fire("e", Context("task"), payload)
    assert payload == {"called": True}


@pytest.mark.parametrize("event", [None, 7, Context("task")])
async def test_an_event_that_is_no_text_is_named(event: Any):
    with pytest.raises(ProcessorError, match=r"^event=(None|7|Context\(.*\)); it must be text"):
        await ProcessorPipeline().fire(event, Context("task"))


@pytest.mark.parametrize("ctx", [None, {"history": []}, "pre_llm_call", SimpleNamespace(state={})])
async def test_a_context_that_is_none_is_named_whether_anyone_handles_the_event_or_not(ctx: Any):
    with pytest.raises(ProcessorError, match=r"^ctx=.*; it must be a Context$"):
        await ProcessorPipeline().fire("e", ctx)


@pytest.mark.parametrize("payload", ["text", ["tool_result"], 7])
async def test_a_payload_that_is_no_dict_is_named(payload: Any):
    with pytest.raises(ProcessorError, match=r"^payload=.*; it must be a dict or None$"):
        await ProcessorPipeline().fire("e", Context("task"), payload)


async def test_what_has_a_state_and_a_config_is_a_context():
    ctx = Context("task")
    ctx.state["history"] = [{"role": role, "content": role} for role in ("user", "assistant") * 3]
    alike: Any = SimpleNamespace(state=ctx.state, config=ctx.config)
    pipeline = ProcessorPipeline().register(RoundWindowProcessor(max_rounds=1))
    await pipeline.fire("pre_llm_call", alike)
    assert [message["role"] for message in ctx.state["history"]] == ["user", "assistant"]
