"""What a chain's summary is made of, and when it is used."""

import asyncio
import subprocess
import sys
from copy import deepcopy
from typing import Any
from unittest.mock import AsyncMock

import pytest

from durable_context.errors import ProcessorError
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from tests.processors.exchanges import (
    ASKED,
    DONE,
    FOUND,
    Asked,
    calling,
    compress,
    over,
    result,
    said,
)


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


async def test_a_summary_may_be_larger_than_markers_if_it_is_smaller_than_the_content() -> None:
    report = "The harbour of Bergen had 1,204 ships in May, of which 17 were ferries. "
    ctx = over(calling("c1"), result("c1", report * 200), DONE)
    await MessageOffloader(max_message_size=100).process(ctx, {})
    assert await compress(ctx, Asked(report * 8)) == [said(report * 8), DONE]


async def test_a_mock_can_stand_for_the_callers_function() -> None:
    summarizer = AsyncMock(return_value="it was done")
    history = await compress(over(calling("c1"), result("c1"), DONE), summarizer)
    assert history == [said("it was done"), DONE]
    summarizer.assert_awaited_once_with([calling("c1"), result("c1")])


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


async def test_without_a_summarizer_a_long_chain_shows_its_newest_results() -> None:
    chain = [message for n in range(90) for message in (calling(f"c{n}"), result(f"c{n}", f"r{n}"))]
    (summary, _) = await compress(over(*chain, DONE))
    assert "(90 calls). Results: 50 earlier ones; search: r50; " in summary["content"]
    assert summary["content"].endswith("search: r89]")
