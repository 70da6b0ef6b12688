"""The compressor over a durable branch: with contents from its store, and with our summarizers."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from durable_context import Branch, ContextClient
from durable_context.errors import ProcessorError, SummarizerUnavailable
from durable_context.processors.context import Context
from durable_context.processors.dialogue_compressor import DialogueCompressor
from durable_context.processors.message_offloader import MessageOffloader
from durable_context.processors.pipeline import ProcessorPipeline
from durable_context.processors.tool_result_offloader import ToolResultOffloader
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.processors.payments import DONE, ROWS, chain, over, user

MakeClient = Callable[..., Awaitable[ContextClient]]


class Telling:
    """A summarizer of our protocol that gives one answer and remembers what it was asked."""

    recipe = "telling/1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        draft: SummaryDraft = self.answer
        return draft


async def test_content_kept_as_artifacts_is_summarized_and_not_the_marker(branch: Branch) -> None:
    asked: list[list[dict[str, Any]]] = []

    async def summarizer(given: list[dict[str, Any]]) -> str:
        asked.append(given)
        return "Mia paid 12.50."

    ctx = await over(branch, user("who paid?"), *chain(ROWS), DONE)
    await MessageOffloader(max_message_size=100, artifacts=branch).process(ctx, {})
    pipeline = ProcessorPipeline().register(DialogueCompressor(summarizer=summarizer))
    await pipeline.fire("pre_llm_call", ctx)
    assert asked == [chain(ROWS)]
    summary = {"role": "assistant", "content": "Mia paid 12.50."}
    assert ctx.state.get("history") == [user("who paid?"), summary, DONE]


async def test_after_a_restart_a_recorded_reference_is_summarized_as_its_content(
    make_client: MakeClient,
) -> None:
    rows = "\0<conversation-record> " + ROWS
    first = await (await make_client()).open_branch("conversation", "main")
    pipeline = ProcessorPipeline().register(ToolResultOffloader(max_size=100, artifacts=first))
    await first.record_turn([user("who paid?"), *chain(rows), DONE], pipeline=pipeline)
    second = await (await make_client()).open_branch("conversation", "main")
    ctx = await Context.from_branch(second)
    assert len(ctx.state.get("history")[2]["content"]) < 300
    asked: list[list[dict[str, Any]]] = []

    async def summarizer(given: list[dict[str, Any]]) -> str:
        asked.append(given)
        return "Mia paid 12.50."

    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert asked[0][1]["content"] == rows


async def test_our_extractive_summarizer_tells_what_a_chain_did(branch: Branch) -> None:
    ctx = await over(branch, user("who paid?"), *chain(ROWS), *chain("no rows", "c2"), DONE)
    await MessageOffloader(max_message_size=500, artifacts=branch).process(ctx, {})
    await DialogueCompressor(summarizer=ExtractiveSummarizer()).process(ctx, {})
    asked, summary, done = ctx.state.get("history")
    assert (asked, done) == (user("who paid?"), DONE)
    assert summary["role"] == "assistant"
    assert "query(payments)" in summary["content"]
    assert "turn 1" not in summary["content"]
    assert "OFFLOADED" not in summary["content"]


async def test_our_summarizers_get_the_chain_as_one_turn_under_the_branchs_policy(
    branch: Branch,
) -> None:
    summarizer = Telling(SummaryDraft(headline="Paid", text="Mia paid.", made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    (request,) = summarizer.requests
    (turn,) = request.turns
    assert [message.role for message in turn.messages] == ["assistant", "tool"]
    assert turn.messages[1].content == ROWS
    assert turn.messages[0].tool_calls[0].name == "query"
    assert request.max_tokens == branch.policy.summary_max_tokens
    assert request.encoding == branch.encoding
    assert turn.token_count > 500


async def test_secrets_in_a_draft_are_redacted_as_in_compaction(branch: Branch) -> None:
    leaking = "The key is ghp_" + "a1B2" * 9
    summarizer = Telling(SummaryDraft(headline="Key", text=leaking, made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert "ghp_" not in ctx.state.get("history")[0]["content"]
    assert "[redacted" in ctx.state.get("history")[0]["content"]


@pytest.mark.parametrize("text", ["", "Mia paid again and again. " * 400])
async def test_a_draft_that_compaction_would_refuse_leaves_the_chain(
    branch: Branch, text: str
) -> None:
    summarizer = Telling(SummaryDraft(headline="Paid", text=text, made_by="telling/1"))
    ctx = await over(branch, *chain(ROWS), DONE)
    await DialogueCompressor(summarizer=summarizer).process(ctx, {})
    assert ctx.state.get("history") == [*chain(ROWS), DONE]


async def test_a_failing_summarizer_of_ours_leaves_history_as_it_was(branch: Branch) -> None:
    down = SummarizerUnavailable("no model")
    ctx = await over(branch, user("who paid?"), *chain(ROWS), DONE)
    with pytest.raises(SummarizerUnavailable) as raised:
        await DialogueCompressor(summarizer=Telling(down)).process(ctx, {})
    assert raised.value is down
    assert ctx.state.get("history") == [user("who paid?"), *chain(ROWS), DONE]


async def test_what_is_no_draft_is_an_error(branch: Branch) -> None:
    ctx = await over(branch, *chain(ROWS), DONE)
    with pytest.raises(ProcessorError, match="must be a SummaryDraft"):
        await DialogueCompressor(summarizer=Telling("Mia paid.")).process(ctx, {})
