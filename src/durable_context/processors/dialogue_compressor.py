"""Replaces chains of tool exchanges that the model has answered by summaries."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from durable_context.models import Message
from durable_context.processors.chain_summaries import (
    ChainSummarizer,
    check_summarizer,
    summary_message,
    summary_of,
)
from durable_context.processors.copying import copied, same
from durable_context.processors.history import (
    calls_of,
    field,
    in_flight,
    read_history,
    rewrite_history,
    stays,
    tool_exchanges,
)
from durable_context.processors.offloaded import OffloadedContents
from durable_context.processors.pipeline import PRE_LLM_CALL, ContextProcessor
from durable_context.processors.round_window import check_whole
from durable_context.turns.sendable import to_openai

if TYPE_CHECKING:
    from durable_context.processors.context import Context
    from durable_context.summarizers import Summarizer


class DialogueCompressor(ContextProcessor):
    """Puts one assistant message with a summary in the place of each chain of complete tool
    exchanges of at least `min_tool_chain_length` messages.

    The chain the model has yet to answer stays, and so does an exchange that lacks a result. A
    chain ends at what is said, and at a system message. `summarizer` is an async function from the
    chain's messages to text, or a `durable_context.summarizers.Summarizer`, whose drafts are
    redacted and checked as in compaction; without one the summary is made by rule. It gets copies
    in which offloaded content is back in its place.

    A summary that is blank, or no smaller than what it is of, is not used. What the summarizer
    raises is raised as it is, and nothing has changed then. Messages that were appended meanwhile
    stay; where the history was changed otherwise, it stays as it is.
    """

    def __init__(
        self,
        *,
        summarizer: "Summarizer | ChainSummarizer | None" = None,
        min_tool_chain_length: int = 2,
        name: str = "dialogue_compressor",
    ) -> None:
        super().__init__(PRE_LLM_CALL, name=name)
        check_summarizer(summarizer)
        check_whole("min_tool_chain_length", min_tool_chain_length)
        self._summarizer = summarizer
        self.pure = summarizer is None
        self._min_tool_chain_length = min_tool_chain_length

    @property
    def min_tool_chain_length(self) -> int:
        """In messages."""
        return self._min_tool_chain_length

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        before = read_history(ctx)
        found = [each for each in chains(before) if len(each) >= self._min_tool_chain_length]
        originals = [copied([before[n] for n in each]) for each in found]
        summaries = [
            await self._summary(ctx, original) async for original in _one_by_one(originals)
        ]
        now = [[before[n] for n in each] for each in found]
        if any(summaries) and same(now, originals):
            used = dict(zip(found, summaries, strict=True))
            rewrite_history(ctx, before, _replaced(before, used))

    async def _summary(self, ctx: "Context", chain: Sequence[Any]) -> str | None:
        contents = OffloadedContents(ctx, artifacts=self._summarizer is not None)
        restored = [await _restored(message, contents) for message in chain]
        return await summary_of(restored, self._summarizer, ctx)


async def _one_by_one(chains: Sequence[Any]) -> AsyncIterator[Any]:
    """Thousands of summaries by rule would hold up the loop together."""
    for chain in chains:
        yield chain
        await asyncio.sleep(0)


def chains(history: Sequence[Any]) -> list[range]:
    """Runs of complete tool exchanges that the model has answered, with nothing in between."""
    found: list[range] = []
    end = in_flight(history)
    for exchange in tool_exchanges(history):
        messages = history[exchange.start : exchange.stop]
        if exchange.unanswered or exchange.start >= end or any(map(stays, messages)):
            continue
        goes_on = bool(found) and found[-1].stop == exchange.start
        start = found.pop().start if goes_on else exchange.start
        found.append(range(start, exchange.stop))
    return found


def _replaced(history: Sequence[Any], summaries: Mapping[range, str | None]) -> list[Any]:
    replaced = list(history)
    for chain, summary in reversed(list(summaries.items())):
        if summary is not None:
            replaced[chain.start : chain.stop] = [summary_message(summary)]
    return replaced


async def _restored(message: Any, contents: OffloadedContents) -> dict[str, Any]:
    """A new dict of it, with the content that markers in it stand for."""
    fields = _as_dict(message)
    content = fields.get("content")
    if isinstance(content, str):
        fields["content"] = await contents.restored(content)
    elif isinstance(content, list | tuple):
        parts = cast("Sequence[Any]", content)
        fields["content"] = [await _restored_part(part, contents) for part in parts]
    return fields


async def _restored_part(part: Any, contents: OffloadedContents) -> Any:
    text = field(part, "text")
    if not isinstance(part, dict) or not isinstance(text, str):
        return cast(Any, part)
    return {**cast("dict[str, Any]", part), "text": await contents.restored(text)}


def _as_dict(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(cast("Mapping[str, Any]", message))
    if isinstance(message, Message):
        return to_openai(message)
    dump = getattr(message, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump(exclude_none=True))
    names = ("role", "content", "name", "tool_call_id", "tool_name")
    fields = {name: field(message, name) for name in names if field(message, name) is not None}
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls_of(message)
    ]
    return {**fields, "tool_calls": calls} if calls else fields
