"""Summaries of tool chains: by rule, by a function of the caller's, or by a `Summarizer`."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from durable_context.errors import InvalidDraft, ProcessorError
from durable_context.models import Message
from durable_context.policy import CompactionPolicy
from durable_context.processors.copying import copied
from durable_context.processors.history import (
    called,
    calls_of,
    count_message,
    field,
    role_of,
    text_of,
)
from durable_context.showing import shown
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.limits import TINY
from durable_context.summarizers.of_messages import as_turn, is_summarizer
from durable_context.tokens import TokenCounter, loaded_encodings, require_tiktoken, token_counter

if TYPE_CHECKING:
    from durable_context.processors.context import Context

T = TypeVar("T")
ChainSummarizer = Callable[[list[dict[str, Any]]], Awaitable[str]]

_ENCODING: Final = "o200k_base"
_SHOWN: Final = 100
"""Characters of a result that the summary by rule shows."""
_NEWEST: Final = 40
"""Results that it shows: all of a long chain would be a large message again."""
_IN_THREAD: Final = 20_000
"""Characters that take some 5 ms to count."""
_LABEL: Final = re.compile(r"^\[turn 1\] (?:\(\d{4}-\d\d-\d\d\) )?", re.MULTILINE)
"""What a summary says of the turn that a chain is made for a summarizer."""


class _Characters(TokenCounter):
    """Stands in where tiktoken is not installed: four characters are a token."""

    def count(self, text: str) -> int:
        return -(-len(text) // 4)

    def count_to(self, text: str, limit: int) -> int:
        return min(self.count(text), limit + 1)


def check_summarizer(summarizer: object) -> None:
    """Raises ProcessorError."""
    if summarizer is not None and not (is_summarizer(summarizer) or callable(summarizer)):
        raise ProcessorError(
            f"summarizer={shown(summarizer)}; it must be a Summarizer, an async function from"
            " messages to text, or None"
        )


async def summary_of(
    chain: list[dict[str, Any]], summarizer: "Summarizer | ChainSummarizer | None", ctx: "Context"
) -> str | None:
    """The summary of a chain's messages, None where that is blank or no smaller than they are.

    A chain of fewer than 64 tokens may have a summary of up to so many. Raises what the summarizer
    raises, and ProcessorError where its answer is no text.
    """
    counter = _counter(ctx.branch.encoding if ctx.branch else _ENCODING)
    if summarizer is None:
        text = by_rule(chain)
    elif is_summarizer(summarizer):
        text = await _drafted(chain, summarizer, ctx, counter)
    else:
        text = await _told(copied(chain), cast(ChainSummarizer, summarizer))
    is_used = text.strip() and await _is_smaller(summary_message(text), chain, counter)
    return text if is_used else None


def summary_message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def by_rule(chain: Sequence[Any]) -> str:
    """What was called, and the beginning of each result."""
    calls = [call for message in chain for call in called(message)]
    names = {call.id: call.name for call in calls}
    tools = ", ".join(dict.fromkeys(call.name for call in calls)) or "tools"
    results = [
        f"{_tool_name(message, names)}: {text_of(message)[:_SHOWN]}"
        for message in chain
        if role_of(message) == "tool"
    ]
    if len(results) > _NEWEST:
        results = [f"{len(results) - _NEWEST} earlier ones", *results[-_NEWEST:]]
    return (
        f"[Tool chain compressed — called {tools} ({len(calls)} calls)."
        f" Results: {'; '.join(results) or 'no results'}]"
    )


def _tool_name(message: Any, names: Mapping[str, str]) -> str:
    named = field(message, "tool_name") or field(message, "name")
    return str(named or names.get(str(field(message, "tool_call_id") or ""), "tool"))


async def _told(chain: list[dict[str, Any]], summarizer: ChainSummarizer) -> str:
    answer: Any = summarizer(chain)
    if isawaitable(answer):
        answer = await answer
    if not isinstance(answer, str):
        raise ProcessorError(f"the summarizer returned {shown(answer)}; it must return text")
    return answer


async def _drafted(
    chain: Sequence[Any],
    summarizer: Summarizer,
    ctx: "Context",
    counter: TokenCounter,
) -> str:
    """Checked and redacted as what compaction publishes; nothing, where that is refused."""
    tokens = await _in_thread(_tokens, chain, counter)
    request = _request(chain, ctx, tokens, counter.encoding)
    draft: Any = await summarizer.summarize(request)
    if not isinstance(draft, SummaryDraft):
        raise ProcessorError(f"the summarizer returned {shown(draft)}; it must be a SummaryDraft")
    try:
        checked = check_draft(draft, request, counter=counter)
    except InvalidDraft:
        return ""
    return _LABEL.sub("", checked.text)


def _request(chain: Sequence[Any], ctx: "Context", tokens: int, encoding: str) -> SummaryRequest:
    policy = ctx.branch.policy if ctx.branch else CompactionPolicy()
    turn = as_turn(1, list(map(_message, chain)), tokens, datetime.now(UTC))
    return SummaryRequest(
        level=0,
        from_turn=1,
        to_turn=1,
        turns=(turn,),
        encoding=encoding,
        max_tokens=policy.summary_max_tokens,
        headline_max_tokens=policy.headline_max_tokens,
        timeout=policy.summarizer_timeout,
    )


def _message(message: Any) -> Message:
    call_id = field(message, "tool_call_id")
    return Message(
        role=cast(Any, role_of(message)),
        content=text_of(message),
        tool_calls=tuple(calls_of(message)),
        tool_call_id=None if call_id is None else str(call_id),
    )


async def _is_smaller(message: dict[str, Any], chain: Sequence[Any], counter: TokenCounter) -> bool:
    """Whether a message is smaller than a chain, of which no more is counted than it takes."""
    size = await _in_thread(_tokens, [message], counter)
    return size < TINY or await _in_thread(_is_larger, chain, counter, size)


def _is_larger(chain: Sequence[Any], counter: TokenCounter, size: int) -> bool:
    if any(counter.count_to(text_of(message), size) > size for message in chain):
        return True
    return _tokens(chain, counter) > size


def _tokens(messages: Sequence[Any], counter: TokenCounter) -> int:
    return sum(count_message(message, counter) for message in messages)


async def _in_thread(
    count: Callable[..., T], messages: Sequence[Any], counter: TokenCounter, *more: int
) -> T:
    """What is counted, without holding up the loop for long."""
    small = sum(len(text_of(message)) for message in messages) <= _IN_THREAD
    if small and counter.encoding in loaded_encodings():
        return count(messages, counter, *more)
    return await asyncio.to_thread(count, messages, counter, *more)


def _counter(encoding: str) -> TokenCounter:
    try:
        require_tiktoken()
    except ImportError:
        return _Characters(encoding)
    return token_counter(encoding)
