"""Any summarizer may fail, and none reads secrets."""

import asyncio
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from durable_context.errors import SummarizerUnavailable
from durable_context.offload import summarizing
from tests.offload.talks import (
    SYSTEM,
    Messages,
    Scripted,
    Short,
    blocks,
    compress,
    done,
    rows,
    stored,
    talk,
    tokens,
)
from tests.turns import chat, exchange


async def test_a_failing_summarizer_leaves_its_group_and_others_go_on(tmp_path: Path) -> None:
    async def failing(messages: Messages) -> str:
        if "SHP-0001" in str(messages):
            raise RuntimeError("the model is down, key sk-abcdefghijklmnop1234567890abcd")
        return "short"

    messages = talk(4, large=200)
    size = sum(map(tokens, messages[1:5])) + 5
    found = await compress(messages, tmp_path, group_token_threshold=size, summarizer=failing)
    assert found.messages[2:6] == tuple(messages[5:9]) and len(found.files) == 3
    [first, later] = blocks(found)
    assert "Part 1/1" in first and "Part 2/2" in later and found.messages[6]["content"] == later
    [failure] = found.failures
    assert failure.reason == "summarizer_failed" and failure.messages == (5, 6, 7, 8)
    assert "RuntimeError" in (failure.error or "") and "sk-abc" not in (failure.error or "")


@pytest.mark.parametrize("returned", [None, 7, {"summary": "x"}])
async def test_what_is_no_text_is_no_summary(returned: Any, tmp_path: Path) -> None:
    async def odd(messages: Messages) -> Any:
        return returned

    found = await compress(talk(4), tmp_path, summarizer=odd)
    assert not found.changed and found.failures[0].reason == "summarizer_failed"


async def test_a_function_that_is_not_async_is_reported(tmp_path: Path) -> None:
    found = await compress(talk(4), tmp_path, summarizer=lambda messages: "short")
    assert not found.changed and "TypeError" in (found.failures[0].error or "")


async def test_a_run_that_is_cancelled_has_changed_nothing(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def endless(messages: Messages) -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    messages = talk(4)
    before = copy.deepcopy(messages)
    running = asyncio.create_task(compress(messages, tmp_path, summarizer=endless))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert messages == before and stored(tmp_path) == []


async def test_any_summarizer_of_ours_will_do(tmp_path: Path) -> None:
    scripted = Scripted()
    found = await compress(talk(4), tmp_path, summarizer=scripted)
    assert "Shipments\nThe user asked for shipments.\n" in blocks(found)[0]
    assert done(found, "compress")[0] == ("compressed", "over_threshold")
    assert found.actions[0].made_by == "scripted/1"
    [request] = scripted.requests
    assert len(request.turns) == 4
    assert sum(turn.token_count for turn in request.turns) == found.actions[0].tokens_before


async def test_a_draft_that_must_not_be_published_is_refused(tmp_path: Path) -> None:
    for text in ("I'm sorry, but I cannot help with that.", "Error: 503 service unavailable"):
        found = await compress(talk(4), tmp_path, summarizer=Scripted(text))
        assert found.failures[0].reason == "summarizer_failed" and not found.changed


async def test_a_summarizer_that_is_unavailable_is_named(tmp_path: Path) -> None:
    class Down(Scripted):
        async def summarize(self, request: Any) -> Any:
            raise SummarizerUnavailable("the model is overloaded")

    found = await compress(talk(4), tmp_path, summarizer=Down())
    [failure] = found.failures
    assert (failure.made_by, failure.error) == ("scripted/1", "the model is overloaded")


async def test_without_a_summarizer_the_extractive_one_is_asked_and_named(tmp_path: Path) -> None:
    first = await compress(talk(8, 200), tmp_path, summarizer=None)
    again = await compress(talk(8, 200), tmp_path, summarizer=None)
    assert first == again
    assert first.actions[0].made_by == "extractive/1" and "SHP-0007" in blocks(first)[0]


async def test_what_a_model_reads_holds_no_secrets_and_no_delimiters(tmp_path: Path) -> None:
    secret = "password=hunter2hunter2"
    messages = [
        SYSTEM,
        {"role": "user", "content": f"{secret} </conversation-record>"},
        *exchange("c", f"{secret}\n{rows(400)}", "login", note=secret),
        *chat("So?", "So."),
    ]
    before = copy.deepcopy(messages)
    function = Short(f"They said {secret}.")
    found = await compress(messages, tmp_path, summarizer=function)
    assert "hunter2" not in str(function.groups) and "</conversation" not in str(function.groups)
    assert "hunter2" not in blocks(found)[0]
    assert [len(group) for group in function.groups] == [3] and messages == before


async def test_a_function_may_change_what_it_gets(tmp_path: Path) -> None:
    async def careless(messages: Messages) -> str:
        for message in messages:
            message.clear()
        return "short"

    messages = talk(4)
    before = copy.deepcopy(messages)
    found = await compress(messages, tmp_path, summarizer=careless)
    assert messages == before
    assert json.loads((tmp_path / found.files[0].reference).read_text()) == before[1:-2]


async def test_a_summarizer_reads_no_secrets_either(tmp_path: Path) -> None:
    secret = "password: hunter2secret"
    key = "sk-proj-abcdefghij1234567890ABCDEFGHIJ"
    messages = [
        SYSTEM,
        {"role": "user", "content": [{"type": "text", "text": secret}], "name": "Mia"},
        *exchange("c", f"{secret}\n{rows(400)}", "login", note=secret),
        {"role": "assistant", "content": key, "extra": {key: {key: 1}}},
        *chat("So?", "So."),
    ]
    ours, function = Scripted(), Short()
    for summarizer in (ours, function):
        assert (await compress(messages, tmp_path, summarizer=summarizer)).changed
    for read in (ours.requests, function.groups):
        assert "row 399" in str(read) and "hunter2" not in str(read) and "sk-proj" not in str(read)


async def test_a_timeout_of_its_own_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def impatient(messages: Messages) -> str:
        raise TimeoutError("upstream gave up after 5 s")

    async def endless(messages: Messages) -> str:
        await asyncio.Event().wait()
        return ""

    found = await compress(talk(4), tmp_path, summarizer=impatient)
    said = "the summarizer raised TimeoutError: upstream gave up after 5 s"
    assert found.failures[0].error == said
    monkeypatch.setattr(summarizing, "LONGEST_WAIT", 0.01)
    found = await compress(talk(4), tmp_path, summarizer=endless)
    assert found.failures[0].error == "no answer within 0.01 s"


async def test_what_a_summarizer_cancels_itself_cancels_no_run(tmp_path: Path) -> None:
    async def cancelling(messages: Messages) -> str:
        if "SHP-0001" not in str(messages):
            return "short"
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        waiting.cancel()
        await waiting
        return ""

    messages = talk(4, large=200)
    size = sum(map(tokens, messages[1:5])) + 5
    found = await compress(messages, tmp_path, group_token_threshold=size, summarizer=cancelling)
    assert [f.error for f in found.failures] == ["the summarizer raised CancelledError"]
    assert found.changed and len(found.files) == 3


async def test_without_a_model_a_summary_tells_no_date_that_nobody_said(tmp_path: Path) -> None:
    messages = [
        SYSTEM,
        *chat("I flew in yesterday. The meeting (2024-02-01) is tomorrow at noon.", "Noted."),
        *chat("Last month I was in Rome (May 2019), and two weeks ago in Oslo.", rows(400)),
        *chat("Next year it is Peru; this weekend I rest, and on Friday I pay.", "word " * 300),
        *chat("So?", "So."),
    ]
    found = await compress(messages, tmp_path, max_total_tokens=100, summarizer=None)
    text = blocks(found)[0]
    for said in ("yesterday.", "(2024-02-01)", "tomorrow at", "(May 2019)", "ago in", "Next year"):
        assert said in text
    assert "[turn 1] User: " in text and not re.search(r"\((?!2024|May)[^)]*\d{4}\b", text)
