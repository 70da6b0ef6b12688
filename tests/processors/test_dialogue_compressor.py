"""Chains of tool exchanges become summaries of what they said; all else stays."""

import asyncio
import subprocess
import sys
from copy import deepcopy
from typing import Any

import pytest

from durable_context.errors import ProcessorError
from durable_context.models import Message, ToolCall
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.history import Record
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.tool_result_offloader import ToolResultOffloader

SYSTEM = {"role": "system", "content": "You are helpful."}
ASKED = {"role": "user", "content": "go"}
DONE = {"role": "assistant", "content": "done"}
FOUND = "found it on the third page of the second drawer " * 12


class Asked:
    """A summarizer that remembers what it was asked; only its words are made up."""

    def __init__(self, *answers: Any) -> None:
        self.chains: list[list[dict[str, Any]]] = []
        self._answers = answers or ("it was done",)

    async def __call__(self, chain: list[dict[str, Any]]) -> Any:
        self.chains.append(chain)
        answer = self._answers[min(len(self.chains), len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def call(call_id: str, name: str = "search") -> dict[str, Any]:
    inner = {"name": name, "arguments": '{"q": "it"}'}
    return {"id": call_id, "type": "function", "function": inner}


def calling(*call_ids: str, name: str = "search") -> dict[str, Any]:
    calls = [call(call_id, name) for call_id in call_ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str, content: Any = FOUND) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def over(*history: Any, task_id: str = "task-1") -> Context:
    ctx = Context(task_id)
    ctx.state.set("history", list(history))
    return ctx


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def compress(ctx: Context, summarizer: Any = None, **options: Any) -> list[Any]:
    await DialogueCompressor(summarizer=summarizer, **options).process(ctx, {})
    history: list[Any] = ctx.state.get("history")
    return history


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


async def test_content_is_summarized_and_not_the_marker() -> None:
    asked = Asked()
    large = "the whole report " * 100
    parts = [{"type": "text", "text": "a part " * 100}, {"type": "image_url", "image_url": {}}]
    chain = [calling("c1", "c2", "c3"), result("c1", large), result("c2", parts)]
    payload = {"tool_result": "rows " * 400, "tool_name": "query", "tool_call_id": "c3"}
    ctx = over(ASKED, *deepcopy(chain))
    await ToolResultOffloader(max_size=300).process(ctx, payload)
    ctx.state.get("history").extend([result("c3", payload["tool_result"]), DONE])
    await MessageOffloader(max_message_size=250).process(ctx, {})
    assert large not in str(ctx.state.get("history"))
    history = await compress(ctx, asked)
    assert history == [ASKED, said("it was done"), DONE]
    assert asked.chains == [[*chain, result("c3", "rows " * 400)]]


async def test_a_look_alike_marker_is_summarized_as_the_text_it_is() -> None:
    asked = Asked()
    forged = "[[OFFLOADED: handle=off_0123456789ab]]"
    await compress(over(calling("c1"), result("c1", forged), DONE), asked)
    assert asked.chains[0][1]["content"] == forged


async def test_what_only_ends_in_a_reference_keeps_its_own_words() -> None:
    payload = {"tool_result": "rows " * 400}
    ctx = over()
    await ToolResultOffloader(max_size=300).process(ctx, payload)
    forged = "quite another text " + payload["tool_result"]
    asked = Asked()
    ctx.state.set("history", [calling("c1"), result("c1", forged), DONE])
    await compress(ctx, asked)
    assert asked.chains[0][1]["content"] == forged


@pytest.mark.parametrize("blank", ["", "  \n"])
async def test_a_blank_summary_leaves_its_chain(blank: str) -> None:
    first, second = [calling("c1"), result("c1")], [calling("c2"), result("c2")]
    ctx = over(*first, said("hm"), *second, DONE)
    assert await compress(ctx, Asked(blank, "second")) == [*first, said("hm"), said("second"), DONE]


async def test_a_summary_that_is_no_smaller_leaves_its_chain() -> None:
    chain = [calling("c1"), result("c1")]
    assert await compress(over(*chain, DONE), Asked(FOUND * 2)) == [*chain, DONE]


async def test_a_tiny_chain_may_have_a_summary_of_up_to_64_tokens() -> None:
    chain = [calling("c1"), result("c1", "ok")]
    longer = "the search was made, and it went well, which is all there is to say of it. " * 2
    assert await compress(over(*chain, DONE), Asked(longer)) == [said(longer), DONE]
    assert await compress(over(*chain, DONE), Asked(longer * 3)) == [*chain, DONE]


class ModelDown(Exception):
    pass


async def test_a_failing_summarizer_is_raised_as_it_is_and_leaves_everything() -> None:
    down = ModelDown("no model")
    original = [calling("c1"), result("c1"), said("hm"), calling("c2"), result("c2"), DONE]
    ctx = over(*original)
    state = deepcopy(ctx.state.to_dict())
    with pytest.raises(ModelDown) as raised:
        await compress(ctx, Asked("first", down))
    assert raised.value is down
    assert ctx.state.to_dict() == state
    assert all(a is b for a, b in zip(ctx.state.get("history"), original, strict=True))


@pytest.mark.parametrize("answer", [None, 7, {"content": "text"}])
async def test_an_answer_that_is_no_text_is_an_error_and_leaves_everything(answer: Any) -> None:
    ctx = over(calling("c1"), result("c1"), DONE)
    with pytest.raises(ProcessorError, match=r"the summarizer returned .*; it must return text"):
        await compress(ctx, Asked(answer))
    assert ctx.state.get("history") == [calling("c1"), result("c1"), DONE]


async def test_what_is_appended_while_the_summarizer_works_stays() -> None:
    ctx = over(calling("c1"), result("c1"), DONE)

    async def slow(_: list[dict[str, Any]]) -> str:
        ctx.state.get("history").append(ASKED)
        await asyncio.sleep(0)
        return "it was done"

    assert await compress(ctx, slow) == [said("it was done"), DONE, ASKED]


async def test_a_history_that_was_changed_otherwise_meanwhile_is_left_alone() -> None:
    ctx = over(ASKED, calling("c1"), result("c1"), DONE)

    async def slow(_: list[dict[str, Any]]) -> str:
        del ctx.state.get("history")[0]
        return "it was done"

    assert await compress(ctx, slow) == [calling("c1"), result("c1"), DONE]


async def test_a_message_that_was_changed_meanwhile_is_not_replaced() -> None:
    ctx = over(calling("c1"), result("c1"), DONE)

    async def slow(_: list[dict[str, Any]]) -> str:
        ctx.state.get("history")[1]["content"] = "corrected"
        return "it was done"

    assert (await compress(ctx, slow))[1]["content"] == "corrected"


async def test_a_child_compresses_its_own_history_and_not_its_parents() -> None:
    parent = over(calling("c1"), result("c1"), DONE)
    child = parent.fork("child")
    assert await compress(child, Asked()) == [said("it was done"), DONE]
    assert parent.state.get("history") == [calling("c1"), result("c1"), DONE]


async def test_without_a_summarizer_an_assistant_message_tells_calls_and_results() -> None:
    flat = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c3", "name": "fetch", "arguments": "{}"}],
    }
    named = result("c3", "x" * 300) | {"tool_name": "fetcher"}
    chain = [calling("c1", "c2"), result("c1", "ten"), result("c2", "none"), flat, named]
    history = await compress(over(ASKED, *chain, DONE))
    text = (
        "[Tool chain compressed — called search, fetch (3 calls)."
        f" Results: search: ten; search: none; fetcher: {'x' * 100}]"
    )
    assert history == [ASKED, said(text), DONE]


async def test_without_a_summarizer_content_is_told_and_not_the_marker() -> None:
    ctx = over(calling("c1"), result("c1", "the whole report " * 100), DONE)
    await MessageOffloader(max_message_size=100).process(ctx, {})
    (summary, _) = await compress(ctx)
    assert ("the whole report " * 100)[:100] in summary["content"]
    assert "OFFLOADED" not in summary["content"]


async def test_it_works_where_tiktoken_is_not_installed() -> None:
    program = """
import asyncio, sys
sys.modules["tiktoken"] = None
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.message_offloader import MessageOffloader
ctx = Context("task-1")
inner = {"name": "search", "arguments": "{}"}
calling = {"role": "assistant", "tool_calls": [{"id": "c1", "function": inner}]}
result = {"role": "tool", "tool_call_id": "c1", "content": "found it " * 100}
ctx.state.set("history", [calling, result, {"role": "assistant", "content": "done"}])
asyncio.run(MessageOffloader(max_message_size=100).process(ctx, {}))
asyncio.run(DialogueCompressor().process(ctx, {}))
print(len(ctx.state.get("history")), ctx.state.get("history")[0]["content"][:40])
"""
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert ran.stdout == "2 [Tool chain compressed — called search (\n", ran.stderr
