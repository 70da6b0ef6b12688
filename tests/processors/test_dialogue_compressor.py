"""Chains of tool exchanges are found and replaced; all else stays."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from durable_context.errors import ProcessorError
from durable_context.models import Message, ToolCall
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import Record
from durable_context.tokens import token_counter
from tests.processors.exchanges import (
    ASKED,
    DONE,
    FOUND,
    SYSTEM,
    Asked,
    calling,
    compress,
    over,
    result,
    said,
)


def test_it_has_the_seeds_event_and_name() -> None:
    compressor = DialogueCompressor(summarizer=Asked())
    assert compressor.event == "pre_llm_call"
    assert compressor.name == "dialogue_compressor"
    assert compressor.min_tool_chain_length == 2


def test_it_is_pure_exactly_without_a_summarizer() -> None:
    assert DialogueCompressor().pure
    assert not DialogueCompressor(summarizer=Asked()).pure


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_a_length_that_is_no_whole_number_from_1_is_refused(wrong: Any) -> None:
    with pytest.raises(ProcessorError, match=r"min_tool_chain_length=.*whole number from 1"):
        DialogueCompressor(min_tool_chain_length=wrong)


@pytest.mark.parametrize("wrong", ["gpt-4o", 7, object()])
def test_what_cannot_summarize_is_refused(wrong: Any) -> None:
    with pytest.raises(ProcessorError, match=r"summarizer=.*must be a Summarizer, an async func"):
        DialogueCompressor(summarizer=wrong)


async def test_without_a_history_nothing_is_written_or_asked() -> None:
    ctx, asked = Context("task-1"), Asked()
    await DialogueCompressor(summarizer=asked).process(ctx, {})
    assert ctx.state.to_dict() == {}
    assert asked.chains == []


async def test_a_history_without_tools_is_untouched() -> None:
    asked = Asked()
    assert await compress(over(SYSTEM, ASKED, DONE), asked) == [SYSTEM, ASKED, DONE]
    assert asked.chains == []


async def test_one_assistant_message_with_the_summary_replaces_a_chain() -> None:
    history = await compress(over(SYSTEM, ASKED, calling("c1"), result("c1"), DONE), Asked())
    assert history == [SYSTEM, ASKED, said("it was done"), DONE]


async def test_exchanges_in_a_row_are_one_chain() -> None:
    asked = Asked()
    chain = [calling("c1", "c2"), result("c2"), result("c1"), calling("c3"), result("c3")]
    history = await compress(over(ASKED, *chain, DONE), asked)
    assert history == [ASKED, said("it was done"), DONE]
    assert asked.chains == [chain]


async def test_chains_between_which_something_is_said_are_summarized_apart() -> None:
    asked = Asked("first", "second")
    first, second = [calling("c1"), result("c1")], [calling("c2"), result("c2")]
    history = await compress(over(ASKED, *first, said("hm"), *second, DONE), asked)
    assert history == [ASKED, said("first"), said("hm"), said("second"), DONE]
    assert asked.chains == [first, second]


async def test_the_length_counts_messages() -> None:
    short, long = [calling("c1"), result("c1")], [calling("c2", "c3"), result("c2"), result("c3")]
    ctx = over(*short, said("hm"), *long, DONE)
    history = await compress(ctx, Asked(), min_tool_chain_length=3)
    assert history == [*short, said("hm"), said("it was done"), DONE]


async def test_the_chain_the_model_has_yet_to_answer_stays() -> None:
    answered, flying = [calling("c1"), result("c1")], [calling("c2"), result("c2")]
    history = await compress(over(ASKED, *answered, DONE, ASKED, *flying), Asked())
    assert history == [ASKED, said("it was done"), DONE, ASKED, *flying]


async def test_a_chain_that_a_new_user_message_follows_is_compressed() -> None:
    history = await compress(over(ASKED, calling("c1"), result("c1"), ASKED), Asked())
    assert history == [ASKED, said("it was done"), ASKED]


async def test_an_unanswered_exchange_stays_and_parts_chains() -> None:
    asked = Asked("first", "second")
    waiting = [calling("c2", "c3"), result("c2")]
    around = [calling("c1"), result("c1")], [calling("c4"), result("c4")]
    history = await compress(over(*around[0], *waiting, *around[1], DONE), asked)
    assert history == [said("first"), *waiting, said("second"), DONE]


@pytest.mark.parametrize(
    "block",
    [
        SYSTEM,
        {"role": "developer", "content": "be brief"},
        Record({"role": "user", "content": "<conversation-record>"}),
    ],
)
async def test_what_stays_parts_chains_and_keeps_its_place(block: Any) -> None:
    asked = Asked("first", "second")
    first, second = [calling("c1"), result("c1")], [calling("c2"), result("c2")]
    history = await compress(over(*first, block, *second, DONE), asked)
    assert history == [said("first"), block, said("second"), DONE]


async def test_an_exchange_with_a_system_message_inside_stays_whole() -> None:
    inside = [calling("c1", "c2"), result("c1"), SYSTEM, result("c2")]
    assert await compress(over(*inside, DONE), Asked()) == [*inside, DONE]


async def test_a_result_without_its_call_is_no_chain() -> None:
    lone = [result("c1"), result("c2"), result("c3")]
    assert await compress(over(*lone, DONE), Asked()) == [*lone, DONE]


async def test_the_summarizer_gets_copies_and_may_do_with_them_what_it_likes() -> None:
    chain = [calling("c1"), result("c1")]
    before = deepcopy(chain)

    async def meddling(given: list[dict[str, Any]]) -> str:
        given[0]["tool_calls"][0]["function"]["name"] = "other"
        given.clear()
        return "it was done"

    assert await compress(over(*chain, DONE), meddling) == [said("it was done"), DONE]
    assert chain == before


async def test_messages_that_are_objects_reach_it_as_dicts() -> None:
    asked = Asked()
    asking = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="f", arguments="{}"),))
    history = await compress(
        over(asking, Message(role="tool", tool_call_id="c1", content=FOUND), DONE), asked
    )
    assert history == [said("it was done"), DONE]
    assert asked.chains[0][0]["tool_calls"][0]["function"]["name"] == "f"
    assert asked.chains[0][1] == result("c1")


async def test_a_second_run_changes_nothing_and_asks_nobody() -> None:
    asked = Asked()
    ctx = over(SYSTEM, ASKED, calling("c1"), result("c1"), DONE)
    once = list(await compress(ctx, asked))
    assert await compress(ctx, asked) == once
    assert len(asked.chains) == 1


async def test_others_get_their_turn_between_the_chains() -> None:
    token_counter("o200k_base").count("loaded before, since loading is awaited in a thread")
    waited = 0

    async def waiting() -> None:
        nonlocal waited
        while True:
            waited += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(waiting())
    chain = [ASKED, calling("a"), result("a"), DONE]
    await DialogueCompressor().process(over(*chain * 20), {})
    other.cancel()
    assert waited >= 20
