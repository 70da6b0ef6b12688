"""Processors are registered by event and called in order, with one payload for all."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context.errors import DurableContextError, InvalidArgument, ProcessorError
from durable_context.processors.context import Context
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline

Step = Callable[[Context, dict[str, Any]], Awaitable[None] | None]


class Calling(ContextProcessor):
    """Does what it is given, and appends its name to `ctx.state["called"]`."""

    def __init__(self, name: str = "it", event: str = "e", step: Step | None = None) -> None:
        super().__init__(event, name=name)
        self.step = step

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        ctx.state["called"] = [*ctx.state.get("called", []), self.name]
        if self.step and (waited := self.step(ctx, payload)):
            await waited


class Unnamed(ContextProcessor):
    def __init__(self, name: str | None = None) -> None:
        super().__init__("pre_llm_call", name=name)

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None: ...


async def fired(pipeline: ProcessorPipeline, event: str = "e") -> list[str]:
    ctx = Context("task")
    await pipeline.fire(event, ctx)
    return ctx.state.get("called", [])


def of(*names: str) -> tuple[ProcessorPipeline, list[Calling]]:
    pipeline, processors = ProcessorPipeline(), [Calling(name) for name in names]
    for processor in processors:
        pipeline.register(processor)
    return pipeline, processors


def test_a_processor_has_an_event_and_a_name():
    processor = Calling("mine", "pre_llm_call")
    assert (processor.event, processor.name) == ("pre_llm_call", "mine")


@pytest.mark.parametrize("name", [None, ""])
def test_a_processor_without_a_name_has_its_classs(name: str | None):
    assert Unnamed(name).name == "Unnamed"


@pytest.mark.parametrize("event", ["", None, 7])
def test_an_event_must_be_named(event: Any):
    with pytest.raises(ProcessorError, match="event must be a non-empty string"):
        Calling(event=event)


def test_a_processor_error_is_a_value_error_of_ours():
    assert issubclass(ProcessorError, InvalidArgument)
    assert issubclass(ProcessorError, ValueError)
    assert issubclass(ProcessorError, DurableContextError)


def test_a_processor_must_say_what_it_does():
    with pytest.raises(TypeError, match="abstract"):
        ContextProcessor("e")  # type: ignore[abstract]


def test_a_processor_shows_its_class_event_and_name():
    assert repr(Calling("x", "pre_llm_call")) == "Calling(event='pre_llm_call', name='x')"


def test_a_processor_is_not_pure_unless_it_says_so():
    assert not Calling().pure


def test_registering_returns_the_pipeline():
    pipeline = ProcessorPipeline()
    assert pipeline.register(Calling("a")).register(Calling("b")) is pipeline
    assert len(pipeline) == 2


@pytest.mark.parametrize("stranger", [None, "summarize", Calling, object()])
def test_only_processors_can_be_registered(stranger: Any):
    with pytest.raises(ProcessorError, match="is no ContextProcessor"):
        ProcessorPipeline().register(stranger)


async def test_processors_of_an_event_run_in_the_order_they_were_registered():
    pipeline, _ = of("c", "a", "b")
    assert await fired(pipeline) == ["c", "a", "b"]


async def test_one_that_is_registered_twice_runs_twice():
    pipeline, [a] = of("a")
    pipeline.register(a)
    assert len(pipeline) == 2
    assert await fired(pipeline) == ["a", "a"]


async def test_unregistering_removes_one_registration():
    pipeline, [a, _] = of("a", "b")
    pipeline.register(a)
    pipeline.unregister(a)
    assert await fired(pipeline) == ["b", "a"]


async def test_unregistering_what_is_not_there_does_nothing():
    pipeline, _ = of("a")
    pipeline.unregister(Calling("a"))
    pipeline.unregister(Calling("a", "another event"))
    assert await fired(pipeline) == ["a"]


def test_a_pipeline_says_whether_an_event_has_processors():
    pipeline, [a] = of("a")
    assert pipeline.has_processors("e")
    assert not pipeline.has_processors("another event")
    pipeline.unregister(a)
    assert not pipeline.has_processors("e")


def test_processors_are_listed_by_event_in_the_order_of_the_events():
    one, two, three = Calling("1", "b"), Calling("2", "a"), Calling("3", "b")
    pipeline = ProcessorPipeline().register(one).register(two).register(three)
    assert pipeline.list_processors() == [one, three, two]
    assert pipeline.list_processors("a") == [two]
    assert pipeline.list_processors("c") == []


@pytest.mark.parametrize("event", [None, "e"])
def test_a_list_of_processors_is_the_callers_own(event: str | None):
    pipeline, _ = of("a")
    pipeline.list_processors(event).clear()
    assert len(pipeline) == 1


async def test_a_cleared_pipeline_is_empty():
    pipeline, _ = of("a", "b")
    pipeline.clear()
    assert len(pipeline) == 0
    assert pipeline.list_processors() == []
    assert await fired(pipeline) == []


def test_a_pipeline_shows_its_events_and_how_many_processors_it_has():
    pipeline = ProcessorPipeline()
    assert repr(pipeline) == "ProcessorPipeline(events=[], total=0)"
    pipeline.register(Calling(event="pre_llm_call")).register(Calling(event="post_tool_call"))
    shown = "ProcessorPipeline(events=['pre_llm_call', 'post_tool_call'], total=2)"
    assert repr(pipeline) == shown


def test_an_emptied_event_is_still_shown():
    pipeline, [a] = of("a")
    pipeline.unregister(a)
    assert repr(pipeline) == "ProcessorPipeline(events=['e'], total=0)"


def test_an_empty_pipeline_is_a_pipeline():
    assert ProcessorPipeline()


async def test_firing_an_event_that_no_one_handles_does_nothing():
    pipeline, _ = of("a")
    assert await fired(pipeline, "another event") == []
    assert not pipeline.has_processors("another event")


async def test_firing_returns_nothing():
    pipeline, _ = of("a")
    assert await pipeline.fire("e", Context("task")) is None  # type: ignore[func-returns-value]


async def test_any_text_is_an_event():
    pipeline = ProcessorPipeline().register(Calling("a", "my own event"))
    assert await fired(pipeline, "my own event") == ["a"]


async def test_all_processors_get_the_callers_context_and_payload():
    seen: list[tuple[Any, Any]] = []
    pipeline, processors = of("a", "b")
    for each in processors:
        each.step = lambda ctx, payload: seen.append((ctx, payload))
    ctx, payload = Context("task"), {"step": 1}
    await pipeline.fire("e", ctx, payload)
    assert [(one is ctx, two is payload) for one, two in seen] == [(True, True)] * 2


async def test_an_empty_payload_is_the_callers_too():
    pipeline, [a] = of("a")
    a.step = lambda ctx, payload: payload.update(answer=1)
    payload: dict[str, Any] = {}
    await pipeline.fire("e", Context("task"), payload)
    assert payload == {"answer": 1}


async def test_without_a_payload_all_processors_share_a_new_one():
    seen: list[dict[str, Any]] = []
    pipeline, [a, b] = of("a", "b")
    a.step = lambda ctx, payload: payload.update(answer=1)
    b.step = lambda ctx, payload: seen.append(dict(payload))
    await pipeline.fire("e", Context("task"))
    await pipeline.fire("e", Context("task"))
    assert seen == [{"answer": 1}, {"answer": 1}]


async def test_an_error_is_raised_as_it_is_and_ends_the_firing():
    pipeline, [a, b, _] = of("a", "b", "c")
    a.step = lambda ctx, payload: payload.update(done=True)
    failure = RuntimeError("processor failed")

    def fail(ctx: Context, payload: dict[str, Any]) -> None:
        raise failure

    b.step = fail
    ctx, payload = Context("task"), dict[str, Any]()
    with pytest.raises(RuntimeError) as raised:
        await pipeline.fire("e", ctx, payload)
    assert raised.value is failure
    assert ctx.state["called"] == ["a", "b"]
    assert payload == {"done": True}


async def test_one_that_is_registered_while_the_event_fires_runs_in_it():
    pipeline, [a, _] = of("a", "b")
    a.step = lambda ctx, payload: pipeline.register(Calling("late")) and None
    assert await fired(pipeline) == ["a", "b", "late"]


async def test_one_that_unregisters_itself_skips_no_one():
    pipeline, [a, _, _] = of("a", "b", "c")
    a.step = lambda ctx, payload: pipeline.unregister(a)
    assert await fired(pipeline) == ["a", "b", "c"]
    assert await fired(pipeline) == ["b", "c"]


async def test_one_that_unregisters_an_earlier_one_skips_no_one():
    pipeline, [a, b, _] = of("a", "b", "c")
    b.step = lambda ctx, payload: pipeline.unregister(a)
    assert await fired(pipeline) == ["a", "b", "c"]


async def test_one_that_is_unregistered_before_its_turn_does_not_run():
    pipeline, [a, b, _] = of("a", "b", "c")
    a.step = lambda ctx, payload: pipeline.unregister(b)
    assert await fired(pipeline) == ["a", "c"]


async def test_one_that_replaces_itself_is_followed_by_its_successor():
    pipeline, [a, _] = of("a", "b")

    def replace(ctx: Context, payload: dict[str, Any]) -> None:
        pipeline.unregister(a)
        pipeline.register(Calling("heir"))

    a.step = replace
    assert await fired(pipeline) == ["a", "b", "heir"]


async def test_a_second_registration_runs_whatever_is_unregistered_before_it():
    pipeline, [a, b] = of("a", "b")
    pipeline.register(b)
    b.step = lambda ctx, payload: pipeline.unregister(a)
    assert await fired(pipeline) == ["a", "b", "b"]


async def test_clearing_while_the_event_fires_ends_it():
    pipeline, [a, _] = of("a", "b")
    a.step = lambda ctx, payload: pipeline.clear()
    assert await fired(pipeline) == ["a"]
    assert len(pipeline) == 0


async def test_an_event_may_fire_another():
    pipeline, [a, _] = of("a", "b")
    pipeline.register(Calling("inner", "other"))

    async def fire(ctx: Context, payload: dict[str, Any]) -> None:
        await pipeline.fire("other", ctx, payload)

    a.step = fire
    assert await fired(pipeline) == ["a", "inner", "b"]
