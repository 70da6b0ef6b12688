"""Which messages are marked for a summary, and when the mark goes away."""

from typing import Any

import pytest

from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.summarize import SummarizeProcessor
from tests.turns import call, calling, chat, exchange, result

SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": "Use metres."}
USER = {"role": "user", "content": "Where is it?"}
SAID = {"role": "assistant", "content": "In Rotterdam."}


def talk(messages: int) -> list[dict[str, Any]]:
    return [
        {"role": ("user", "assistant")[number % 2], "content": f"msg {number}"}
        for number in range(messages)
    ]


def holding(history: Any, threshold: int = 3) -> Context:
    ctx = Context("task", config=ContextConfig(summary_threshold=threshold))
    ctx.state.set("history", history)
    return ctx


async def marked(history: Any, threshold: int = 3) -> Any:
    """The candidates, after a check that they are marked, or None."""
    ctx = holding(history, threshold)
    await SummarizeProcessor().process(ctx, {})
    candidates = ctx.state.get("summary_candidates")
    assert ctx.state.get("needs_summary", False) is bool(candidates)
    return candidates


def test_it_fires_before_the_model_is_called_and_is_pure():
    processor = SummarizeProcessor()
    assert (processor.event, processor.name) == ("pre_llm_call", "summarize")
    assert processor.pure
    assert SummarizeProcessor(name="mine").name == "mine"


def test_an_unknown_parameter_is_refused():
    with pytest.raises(TypeError):
        SummarizeProcessor(threshold=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("history", [None, [], talk(2), talk(3), [USER, *exchange("a", "1")]])
async def test_nothing_is_written_up_to_the_threshold(history: Any):
    ctx = holding(history)
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state.keys() == {"history"}


async def test_without_a_history_nothing_is_written():
    ctx = Context("task")
    await SummarizeProcessor().process(ctx, {})
    assert not ctx.state


async def test_the_oldest_messages_beyond_the_threshold_are_candidates():
    history = talk(7)
    assert await marked(history) == history[:4]


async def test_candidates_are_the_messages_themselves_in_a_list_of_its_own():
    history = talk(5)
    candidates = await marked(history)
    assert [one is other for one, other in zip(candidates, history, strict=False)] == [True, True]
    candidates.clear()
    assert history == talk(5)


async def test_the_history_stays_as_it_is():
    history = talk(9)
    await marked(history)
    assert history == talk(9)


async def test_a_history_that_is_a_tuple_is_marked_as_well():
    assert await marked(tuple(talk(5))) == talk(5)[:2]


async def test_system_messages_count_and_are_no_candidates():
    assert await marked([SYSTEM, *talk(4)]) == talk(4)[:2]


@pytest.mark.parametrize("stays", [SYSTEM, DEVELOPER, Record(USER)])
async def test_messages_that_stay_are_left_out_wherever_they_are(stays: dict[str, Any]):
    assert await marked([*talk(1), stays, *talk(4)[1:], stays]) == talk(4)[:3]


async def test_a_history_of_system_messages_has_nothing_to_summarize():
    assert await marked([SYSTEM] * 9) is None


async def test_an_exchange_at_the_boundary_is_left_whole():
    history = [USER, *exchange("a", "1"), SAID, USER]
    assert await marked(history) == [USER]


async def test_an_exchange_of_many_calls_is_left_whole():
    calls = calling(call("a", "x"), call("b", "x"), call("c", "x"))
    results = [result("a", "1"), result("b", "2"), result("c", "3")]
    assert await marked([USER, calls, *results, SAID]) == [USER]


async def test_an_exchange_that_comes_first_is_taken_whole():
    history = [*exchange("a", "1"), SAID, USER]
    assert await marked(history) == history[:2]


async def test_an_exchange_that_comes_first_but_for_system_messages_is_taken_whole():
    history = [SYSTEM, *exchange("a", "1"), *talk(3)]
    assert await marked(history, threshold=5) == history[1:3]


async def test_a_system_message_within_an_exchange_does_not_split_it():
    asked, answered = exchange("a", "1")
    history = [USER, asked, SYSTEM, answered, SAID, USER]
    assert await marked(history, threshold=4) == [USER]
    assert await marked(history, threshold=3) == [USER, asked, answered]


async def test_whole_exchanges_before_the_boundary_are_candidates():
    history = [USER, *exchange("a", "1"), *exchange("b", "2"), SAID, USER]
    assert await marked(history, threshold=3) == history[:3]


async def test_an_exchange_that_lacks_a_result_is_no_candidate():
    waiting = [calling(call("a", "x"), call("b", "y")), result("a", "1")]
    history = [USER, *waiting, *talk(4)]
    assert await marked(history) == [USER, *talk(4)[:3]]


async def test_exchanges_that_the_model_has_yet_to_answer_are_no_candidates():
    history = [*chat("a", "b"), USER, *exchange("a", "1"), *exchange("b", "2")]
    assert await marked(history, threshold=1) == history[:3]


async def test_nothing_but_exchanges_in_flight_is_nothing_to_summarize():
    assert await marked([*exchange("a", "1"), *exchange("b", "2")]) is None


async def test_the_mark_is_cleared_once_the_history_is_short():
    ctx = holding(talk(5))
    await SummarizeProcessor().process(ctx, {})
    ctx.state.set("history", talk(3))
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state["needs_summary"] is False
    assert ctx.state["summary_candidates"] == []


@pytest.mark.parametrize("history", [None, []])
async def test_the_mark_is_cleared_once_there_is_no_history(history: Any):
    ctx = holding(talk(5))
    await SummarizeProcessor().process(ctx, {})
    ctx.state.set("history", history)
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state["needs_summary"] is False
    assert ctx.state["summary_candidates"] == []


async def test_the_mark_is_cleared_once_only_system_messages_are_left():
    ctx = holding(talk(5))
    await SummarizeProcessor().process(ctx, {})
    ctx.state.set("history", [SYSTEM] * 5)
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state["needs_summary"] is False


async def test_new_candidates_replace_old_ones():
    ctx = holding(talk(5))
    await SummarizeProcessor().process(ctx, {})
    ctx.state.set("history", talk(9)[5:])
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state["summary_candidates"] == talk(9)[5:6]


async def test_a_second_run_changes_nothing():
    ctx = holding([SYSTEM, *talk(7), *exchange("a", "1"), SAID])
    await SummarizeProcessor().process(ctx, {})
    before = ctx.state.to_dict()
    await SummarizeProcessor().process(ctx, {})
    assert ctx.state.to_dict() == before


async def test_a_child_clears_its_own_mark_only():
    parent = holding(talk(5))
    await SummarizeProcessor().process(parent, {})
    child = parent.fork("child")
    child.state.set("history", talk(2))
    await SummarizeProcessor().process(child, {})
    assert child.state["needs_summary"] is False
    assert parent.state["needs_summary"] is True
    assert parent.state["summary_candidates"] == talk(5)[:2]


async def test_it_marks_when_a_pipeline_fires():
    ctx = holding(talk(4))
    await ProcessorPipeline().register(SummarizeProcessor()).fire("pre_llm_call", ctx)
    assert ctx.state["needs_summary"] is True
