"""A history is cut to a token budget by whole rounds, and says what was cut."""

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from durable_context import Message
from durable_context.errors import ProcessorError
from durable_context.processors import token_budget
from durable_context.processors.config import ContextConfig
from durable_context.processors.context import Context
from durable_context.processors.history import Record, count_history
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.token_budget import TokenBudgetProcessor
from durable_context.tokens import TokenCounter, token_counter
from tests.turns import call, calling, chat, exchange, result

COUNTER = token_counter("cl100k_base")
SYSTEM = {"role": "system", "content": "Be brief, and answer in the language of the question."}
DEVELOPER = {"role": "developer", "content": "Use metres, never feet."}
WAITING = [calling(call("w", "x"), call("v", "y")), result("w", "1")]


def talk(rounds: int) -> list[dict[str, Any]]:
    return [
        message
        for n in range(rounds)
        for message in chat(f"Where is SHP-{n:04d}?", f"It left Rotterdam on day {n}." * (n + 1))
    ]


def cost(messages: list[Any]) -> int:
    return count_history(messages, COUNTER)


def holding(history: Any, **extra: Any) -> Context:
    ctx = Context("task", config=ContextConfig(extra=extra))
    ctx.state.set("history", history)
    return ctx


async def trimmed(history: Any, limit: int) -> tuple[Any, dict[str, Any]]:
    ctx = holding(history)
    await TokenBudgetProcessor(max_tokens=limit).process(ctx, {})
    return ctx.state["history"], ctx.state["token_budget_trimmed"]


def test_it_has_the_defaults_of_its_design_and_is_pure():
    processor = TokenBudgetProcessor()
    assert (processor.event, processor.name) == ("pre_llm_call", "token_budget")
    assert (processor.max_tokens, processor.encoding) == (100_000, "cl100k_base")
    assert processor.pure


def test_its_parameters_can_be_read():
    processor = TokenBudgetProcessor(max_tokens=5, encoding="o200k_base", name="mine")
    assert (processor.max_tokens, processor.encoding) == (5, "o200k_base")
    assert processor.name == "mine"


@pytest.mark.parametrize("max_tokens", [0, -1, True, 1.5, "80000", None, float("nan")])
def test_what_is_no_number_of_tokens_is_refused(max_tokens: Any):
    with pytest.raises(ProcessorError, match=r"max_tokens=.*whole number from 1") as raised:
        TokenBudgetProcessor(max_tokens=max_tokens)
    assert repr(max_tokens) in str(raised.value)


@pytest.mark.parametrize("encoding", ["gpt-4o", "", None, 7, ["cl100k_base"]])
def test_an_unknown_encoding_is_refused_and_the_known_are_named(encoding: Any):
    with pytest.raises(ProcessorError, match=r"encoding=.*cl100k_base, o200k_base"):
        TokenBudgetProcessor(encoding=encoding)


def test_an_unknown_parameter_is_refused():
    with pytest.raises(TypeError):
        TokenBudgetProcessor(budget=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
def test_a_text_is_counted_in_the_encoding_that_was_chosen(encoding: str):
    text = "Das Schiff liegt in Rotterdam. 船はロッテルダムにあります。"
    processor = TokenBudgetProcessor(encoding=encoding)
    assert processor.count_tokens(text) == TokenCounter(encoding).count(text)


def test_the_encodings_count_differently():
    text = "船はロッテルダムにあります。" * 10
    one, other = TokenBudgetProcessor(), TokenBudgetProcessor(encoding="o200k_base")
    assert one.count_tokens(text) > other.count_tokens(text)


@pytest.mark.parametrize("text", ["<|endoftext|>", "a <|fim_prefix|> b", "<|endofprompt|>" * 99])
def test_the_text_of_special_tokens_is_counted_as_text(text: str):
    assert TokenBudgetProcessor().count_tokens(text) > 3


async def test_special_tokens_in_a_history_raise_nothing():
    history = chat("<|endoftext|>", "<|fim_prefix|>")
    kept, said = await trimmed(list(history), 1000)
    assert kept == history
    assert said["fits"]


@pytest.mark.parametrize("history", [None, []])
async def test_without_messages_nothing_is_written(history: Any):
    ctx = holding(history)
    await TokenBudgetProcessor().process(ctx, {})
    assert ctx.state.keys() == {"history"}


async def test_a_context_without_a_history_stays_empty():
    ctx = Context("task")
    await TokenBudgetProcessor().process(ctx, {})
    assert not ctx.state


async def test_within_the_budget_nothing_is_dropped():
    history = talk(3)
    kept, said = await trimmed(history, cost(talk(3)))
    assert kept is history
    assert history == talk(3)
    assert said == {
        "messages": 0,
        "tokens_saved": 0,
        "tokens": cost(talk(3)),
        "limit": cost(talk(3)),
        "fits": True,
    }


async def test_one_token_over_the_budget_costs_the_oldest_round():
    kept, said = await trimmed(talk(3), cost(talk(3)) - 1)
    assert kept == talk(3)[2:]
    assert said == {
        "messages": 2,
        "tokens_saved": cost(talk(3)) - cost(talk(3)[2:]),
        "tokens": cost(talk(3)[2:]),
        "limit": cost(talk(3)) - 1,
        "fits": True,
    }


async def test_as_many_rounds_are_dropped_as_it_takes_and_no_more():
    for rounds in range(1, 9):
        limit = cost(talk(9)[-2 * rounds :])
        kept, said = await trimmed(talk(9), limit)
        assert kept == talk(9)[-2 * rounds :]
        assert said["tokens"] == limit


async def test_what_is_said_to_be_left_is_what_is_left():
    kept, said = await trimmed([SYSTEM, *talk(9)], 200)
    assert said["tokens"] == cost(kept)
    assert said["tokens"] + said["tokens_saved"] == cost([SYSTEM, *talk(9)])
    assert said["messages"] == 19 - len(kept)


async def test_rounds_are_dropped_with_all_their_tool_calls():
    first = [*talk(1)[:1], *exchange("a", "1"), *exchange("b", "2"), *talk(1)[1:]]
    kept, said = await trimmed([*first, *talk(2)], cost([*first, *talk(2)]) - 1)
    assert kept == talk(2)
    assert said["messages"] == 6


@pytest.mark.parametrize("stays", [SYSTEM, DEVELOPER, Record({"role": "user", "content": "x"})])
async def test_messages_that_stay_are_kept_where_they_are(stays: dict[str, Any]):
    one, two = talk(2)[:2], talk(2)[2:]
    kept, _ = await trimmed([stays, one[0], stays, one[1], stays, *two, stays], 1)
    assert kept == [stays, stays, stays, *two, stays]


async def test_an_exchange_that_lacks_a_result_is_kept_whole():
    kept, _ = await trimmed([*talk(1), *WAITING, *talk(2)], 1)
    assert kept == [*WAITING, *talk(2)[2:]]


async def test_what_cannot_fit_keeps_system_messages_and_the_current_round():
    current = [{"role": "user", "content": "Where?"}, *exchange("a", "row " * 500)]
    kept, said = await trimmed([SYSTEM, *talk(3), DEVELOPER, *current], 100)
    assert kept == [SYSTEM, DEVELOPER, *current]
    assert said["fits"] is False
    assert said["tokens"] == cost(kept) > said["limit"] == 100
    assert said["messages"] == 6


async def test_a_single_round_that_cannot_fit_is_kept():
    kept, said = await trimmed(talk(1), 1)
    assert kept == talk(1)
    assert (said["messages"], said["tokens_saved"], said["fits"]) == (0, 0, False)


async def test_tool_calls_and_names_count_towards_the_budget():
    asked = calling(call("a", "find", q="where " * 300))
    history = [*talk(1), {"role": "user", "content": "x"}, asked, result("a", "1")]
    _, said = await trimmed(history, 300)
    assert said["tokens"] > 300
    assert not said["fits"]


async def test_a_second_run_drops_nothing_more():
    ctx = holding([SYSTEM, *talk(9)])
    processor = TokenBudgetProcessor(max_tokens=200)
    await processor.process(ctx, {})
    once, said = list(ctx.state["history"]), ctx.state["token_budget_trimmed"]
    await processor.process(ctx, {})
    assert ctx.state["history"] == once
    assert ctx.state["token_budget_trimmed"] == said | {"messages": 0, "tokens_saved": 0}


async def test_the_config_wins_over_the_constructor():
    ctx = holding(talk(9), token_budget=cost(talk(9)[-4:]))
    await TokenBudgetProcessor(max_tokens=1_000_000).process(ctx, {})
    assert ctx.state["history"] == talk(9)[-4:]
    assert ctx.state["token_budget_trimmed"]["limit"] == cost(talk(9)[-4:])


async def test_the_config_chooses_the_encoding():
    history = chat("船はロッテルダムにあります。" * 20, "はい。")
    ctx = holding(history, token_encoding="o200k_base")
    await TokenBudgetProcessor().process(ctx, {})
    counted = count_history(history, token_counter("o200k_base"))
    assert ctx.state["token_budget_trimmed"]["tokens"] == counted < cost(history)


@pytest.mark.parametrize("budget", [0, -1, True, "80000", None, 1.5])
async def test_a_config_with_no_number_of_tokens_is_refused_when_it_fires(budget: Any):
    history = talk(3)
    ctx = holding(history, token_budget=budget)
    with pytest.raises(ProcessorError, match=r"extra\['token_budget'\]=.*whole number from 1"):
        await TokenBudgetProcessor().process(ctx, {})
    assert history == talk(3)
    assert "token_budget_trimmed" not in ctx.state


@pytest.mark.parametrize("encoding", ["p50k_base", None, 7])
async def test_a_config_with_an_unknown_encoding_is_refused_when_it_fires(encoding: Any):
    ctx = holding(talk(3), token_encoding=encoding)
    with pytest.raises(ProcessorError, match=r"extra\['token_encoding'\]=.*cl100k_base"):
        await TokenBudgetProcessor().process(ctx, {})
    assert ctx.state["history"] == talk(3)


async def test_the_history_is_changed_in_the_list_that_is_there():
    history = talk(3)
    await trimmed(history, cost(talk(3)) - 1)
    assert history == talk(3)[2:]


async def test_objects_are_cut_as_dicts_are():
    history = [Message(**message) for message in talk(3)]
    kept, _ = await trimmed(list(history), cost(talk(3)) - 1)
    assert kept == history[2:]


async def test_a_child_never_changes_its_parents_list():
    parent = holding(talk(3))
    child = parent.fork("child")
    await TokenBudgetProcessor(max_tokens=1).process(child, {})
    assert child.state["history"] == talk(3)[-2:]
    assert parent.state.to_dict() == {"history": talk(3)}


async def test_each_message_is_counted_once_a_run(monkeypatch: pytest.MonkeyPatch):
    counted: Counter[str] = Counter()
    count = token_budget.count_message

    def counting(message: Any, counter: TokenCounter) -> int:
        counted[message["content"]] += 1
        return count(message, counter)

    monkeypatch.setattr(token_budget, "count_message", counting)
    await trimmed(talk(50), 1)
    assert set(counted.values()) == {1}
    assert len(counted) == 100


async def test_messages_that_come_while_a_long_history_is_counted_are_kept_and_counted():
    long = [*talk(2), *chat("Read this.", "word " * 60_000)]
    history, late = list(long), {"role": "user", "content": "And now?"}
    ctx = holding(history)
    running = asyncio.create_task(TokenBudgetProcessor(max_tokens=50).process(ctx, {}))
    await asyncio.sleep(0)
    history.append(late)
    await running
    assert ctx.state["history"] == [late]
    assert ctx.state["token_budget_trimmed"]["tokens"] == cost([late])
    assert ctx.state["token_budget_trimmed"]["messages"] == 6


async def test_it_cuts_when_a_pipeline_fires():
    ctx = holding(talk(3))
    pipeline = ProcessorPipeline().register(TokenBudgetProcessor(max_tokens=1))
    await pipeline.fire("pre_llm_call", ctx)
    assert ctx.state["history"] == talk(3)[-2:]


def test_without_tiktoken_it_says_what_to_install_and_all_else_works():
    program = """
import asyncio, sys
sys.modules["tiktoken"] = None
import durable_context
from durable_context.processors import *

async def brief(chain):
    return "Found."

ctx = Context("task", config=ContextConfig(summary_threshold=1))
ctx.state.set("history", [
    {"role": "user", "content": "a"},
    {"role": "user", "content": "b" * 99},
    {"role": "assistant", "tool_calls": [{"id": "c", "name": "find"}]},
    {"role": "tool", "tool_call_id": "c", "content": "row " * 99},
    {"role": "assistant", "content": "d"},
])
pipeline = ProcessorPipeline().register(MessageOffloader(max_message_size=98))
pipeline.register(DialogueCompressor(summarizer=brief))
pipeline.register(RoundWindowProcessor(max_rounds=1)).register(SummarizeProcessor())
asyncio.run(pipeline.fire("pre_llm_call", ctx))
sys.stdout.write(f"{[message['content'][:12] for message in ctx.state['history']]}\\n")
try:
    TokenBudgetProcessor()
except ImportError as error:
    sys.stdout.write(f"{error}\\n")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    kept, message = ran.stdout.splitlines()
    assert kept == "['a', '[[OFFLOADED:', 'Found.', 'd']"
    assert "pip install tiktoken" in message
