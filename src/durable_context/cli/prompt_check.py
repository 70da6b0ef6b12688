"""Looks at a prompt as a provider and its reader would, and says what is wrong with it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from durable_context import PreparedContext
from durable_context.calibration import WHOLE, in_model_tokens
from durable_context.model_tokens import counted_as
from durable_context.models import Message
from durable_context.tokens import REPLY_OVERHEAD, TokenCounter, token_counter
from durable_context.tool_tokens import count_tools
from durable_context.turns.messages import parse_message

_MAIN_LINE = ("checkpoint", "digest", "raw")


def problems_of(prepared: PreparedContext, head_turn: int) -> tuple[str, ...]:
    """Empty for a prompt that is within budget, counted right, complete and valid."""
    return (
        *_token_problems(prepared),
        *_coverage_problems(prepared, head_turn),
        *_pairing_problems(prepared.messages),
        *_content_problems(prepared.messages),
    )


def _token_problems(prepared: PreparedContext) -> Iterator[str]:
    tokens = prepared.token_count
    if tokens > prepared.budget.limit:
        yield f"{tokens:,} tokens of {prepared.budget.limit:,}"
    in_blocks = prepared.manifest.token_count
    if in_blocks != tokens:
        yield f"{tokens:,} tokens, and {in_blocks:,} in its blocks"
    counter, model = token_counter(prepared.manifest.encoding), prepared.budget.model
    counted = sum(_count(message, counter) for message in prepared.messages) + REPLY_OVERHEAD
    counted += count_tools(prepared.budget.tools, counter, counted_as(model) if model else None)
    sent = in_model_tokens(counted, round(prepared.manifest.token_factor * WHOLE))
    # What stands for an image is shorter than what the image costs, and reasoning is not in them.
    # A model may count other things in a message besides.
    if sent > tokens or (sent < tokens and not (model or prepared.parts or prepared.reasoning)):
        yield f"{tokens:,} tokens, and {sent:,} in its messages"


def _count(message: Mapping[str, Any], counter: TokenCounter) -> int:
    if message["role"] == "system":
        return counter.count_message(Message(role="user", content=message["content"]))
    return counter.count_message(parse_message(message, 0))


def _coverage_problems(prepared: PreparedContext, head_turn: int) -> Iterator[str]:
    """Each turn is there exactly once along the main line, in order."""
    covered: list[int] = []
    for block in prepared.manifest.blocks:
        if block.kind in _MAIN_LINE and block.from_turn is not None and block.to_turn is not None:
            covered += range(block.from_turn, block.to_turn + 1)
    if covered != list(range(1, head_turn + 1)):
        yield f"turns 1–{head_turn} are not there once each, in order"


def _pairing_problems(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each tool call has its result right after it, and no result is without its call."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"a result without its call {message['tool_call_id']!r}"
            waiting.discard(message["tool_call_id"])
            continue
        yield from _unanswered(waiting)
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    yield from _unanswered(waiting)


def _unanswered(waiting: set[str]) -> Iterator[str]:
    if waiting:
        yield f"calls without a result: {sorted(waiting)!r}"


def _content_problems(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for position, message in enumerate(messages):
        said = message.get("content") or message.get("tool_calls")
        if not said and message["role"] != "tool":
            yield f"message {position} of the {message['role']} is empty"
        try:
            json.dumps(message, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            yield f"message {position} cannot be sent as UTF-8"
