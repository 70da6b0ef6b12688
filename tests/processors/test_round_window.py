"""Which rounds of a history are kept, and what stays whatever its round."""

from types import SimpleNamespace
from typing import Any

import pytest

from durable_context import Message
from durable_context.errors import ProcessorError
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import Record
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.round_window import RoundWindowProcessor
from tests.turns import call, calling, chat, exchange, result

SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": "Use metres."}
WAITING = [calling(call("w", "x"), call("v", "y")), result("w", "1")]


def talk(rounds: int) -> list[dict[str, Any]]:
    return [message for n in range(rounds) for message in chat(f"q{n}", f"a{n}")]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def windowed(history: Any, max_rounds: int | None = 1) -> Any:
    ctx = Context("task")
    ctx.state.set("history", history)
    await RoundWindowProcessor(max_rounds=max_rounds).process(ctx, {})
    return ctx.state.get("history")


def test_it_fires_before_the_model_is_called_and_is_pure():
    processor = RoundWindowProcessor()
    assert (processor.event, processor.name) == ("pre_llm_call", "round_window")
    assert processor.pure
    assert RoundWindowProcessor(name="mine").name == "mine"


def test_it_says_how_many_rounds_it_keeps():
    assert RoundWindowProcessor(max_rounds=5).max_rounds == 5
    assert RoundWindowProcessor().max_rounds is None


@pytest.mark.parametrize("max_rounds", [0, -1, True, False, 1.0, "3", [1]])
def test_what_is_no_number_of_rounds_is_refused(max_rounds: Any):
    with pytest.raises(ProcessorError, match=r"max_rounds=.*whole number from 1") as raised:
        RoundWindowProcessor(max_rounds=max_rounds)
    assert repr(max_rounds) in str(raised.value)


def test_an_unknown_parameter_is_refused():
    with pytest.raises(TypeError):
        RoundWindowProcessor(rounds=3)  # type: ignore[call-arg]


async def test_without_a_history_nothing_is_written():
    ctx = Context("task")
    await RoundWindowProcessor(max_rounds=1).process(ctx, {})
    assert not ctx.state


async def test_an_empty_history_stays_empty():
    assert await windowed([]) == []
    assert await windowed(None) is None


@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_up_to_the_limit_nothing_changes(rounds: int):
    assert await windowed(talk(rounds), 3) == talk(rounds)


async def test_the_oldest_rounds_are_dropped():
    assert await windowed(talk(10), 2) == talk(10)[-4:]


async def test_without_a_number_the_config_says_how_many():
    ctx = Context("task", config=ContextConfig(history_rounds=2))
    ctx.state.set("history", talk(5))
    await RoundWindowProcessor().process(ctx, {})
    assert ctx.state["history"] == talk(5)[-4:]


async def test_a_number_wins_over_the_config():
    ctx = Context("task", config=ContextConfig(history_rounds=2))
    ctx.state.set("history", talk(5))
    await RoundWindowProcessor(max_rounds=1).process(ctx, {})
    assert ctx.state["history"] == talk(5)[-2:]


async def test_all_tool_calls_of_a_round_are_kept_with_it():
    last = [user("q"), *exchange("a", "1"), *exchange("b", "2"), {"role": "assistant"}]
    assert await windowed([*talk(2), *last]) == last


async def test_all_tool_calls_of_a_round_go_with_it():
    first = [user("q"), *exchange("a", "1"), *exchange("b", "2"), {"role": "assistant"}]
    assert await windowed([*first, *talk(1)]) == talk(1)


async def test_a_round_that_is_not_complete_counts_and_is_kept():
    assert await windowed([*talk(1), user("q2")]) == [user("q2")]


async def test_the_current_round_is_kept_with_its_open_calls():
    current = [user("q"), *exchange("a", "1"), *WAITING]
    assert await windowed([*talk(3), *current]) == current


async def test_what_the_user_says_in_several_messages_is_kept_together():
    current = [user("q"), user("and"), *exchange("a", "1")]
    assert await windowed([*talk(3), *current]) == current


async def test_what_stands_before_the_first_user_message_is_a_round():
    greeting = {"role": "assistant", "content": "Hello."}
    assert await windowed([greeting, *talk(2)], 2) == talk(2)
    assert await windowed([greeting, *talk(2)], 3) == [greeting, *talk(2)]


@pytest.mark.parametrize("stays", [SYSTEM, DEVELOPER, Record(user("A block of ours."))])
async def test_messages_that_stay_are_kept_where_they_are(stays: dict[str, Any]):
    one, two = talk(2)[:2], talk(2)[2:]
    history = [stays, *one, stays, *two]
    assert await windowed(history) == [stays, stays, *two]
    history = [one[0], stays, one[1], two[0], stays, two[1], stays]
    assert await windowed(history) == [stays, two[0], stays, two[1], stays]


async def test_a_history_of_system_messages_is_kept():
    assert await windowed([SYSTEM, DEVELOPER, SYSTEM]) == [SYSTEM, DEVELOPER, SYSTEM]


async def test_a_system_message_within_a_dropped_exchange_is_kept():
    asked, answered = exchange("a", "1")
    assert await windowed([user("q"), asked, SYSTEM, answered, *talk(1)]) == [SYSTEM, *talk(1)]


async def test_an_exchange_that_lacks_a_result_is_kept_whole():
    history = [user("q"), *WAITING, *talk(2)]
    assert await windowed(history) == [*WAITING, *talk(2)[2:]]


async def test_the_history_is_changed_in_the_list_that_is_there():
    history = talk(3)
    assert await windowed(history) is history
    assert history == talk(3)[-2:]


async def test_a_history_that_is_a_tuple_becomes_a_list_only_if_it_is_trimmed():
    assert await windowed(tuple(talk(3))) == talk(3)[-2:]
    assert await windowed(tuple(talk(1))) == tuple(talk(1))


async def test_messages_are_never_changed():
    history = [*talk(2), user("q"), *exchange("a", "1")]
    kept = await windowed(list(history))
    assert [id(message) for message in kept] == [id(message) for message in history[4:]]


@pytest.mark.parametrize("form", [SimpleNamespace, Message])
async def test_objects_are_windowed_as_dicts_are(form: Any):
    history = [form(**message) for message in talk(3)]
    assert await windowed(list(history)) == history[-2:]


async def test_a_second_run_changes_nothing():
    history = [SYSTEM, user("q"), *WAITING, *talk(2), SYSTEM, *talk(3)]
    once = list(await windowed(list(history), 2))
    assert await windowed(list(once), 2) == once


async def test_a_child_never_changes_its_parents_list():
    parent = Context("task")
    parent.state.set("history", talk(3))
    child = parent.fork("child")
    await RoundWindowProcessor(max_rounds=1).process(child, {})
    assert child.state["history"] == talk(3)[-2:]
    assert parent.state["history"] == talk(3)


async def test_a_history_that_cannot_be_read_is_left_as_it_is():
    history = [*talk(3), {"content": "no role"}]
    with pytest.raises(ProcessorError, match="it has no role"):
        await windowed(history)
    assert history == [*talk(3), {"content": "no role"}]


async def test_it_windows_when_a_pipeline_fires():
    ctx = Context("task")
    ctx.state.set("history", talk(2))
    pipeline = ProcessorPipeline().register(RoundWindowProcessor(max_rounds=1))
    await pipeline.fire("pre_llm_call", ctx)
    assert ctx.state["history"] == talk(1 + 1)[2:]
