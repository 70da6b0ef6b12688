"""What callers report of the model call that a prompt led to, and what is learned of it."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from durable_context.calibration import FADING, extent, kind_of, ratio_reported
from durable_context.database import Pool, acquired
from durable_context.model_tokens import counted_as
from durable_context.prompts.prepared import PreparedContext
from durable_context.tokens import reasoning_tokens, token_counter
from durable_context.tool_tokens import count_tools

logger = logging.getLogger(__name__)

_WHOLE_PROMPT: Final = (
    "prompt_tokens",
    "prompt_token_count",
    "promptTokenCount",
    "total_input_tokens",
)
_BESIDE_CACHED: Final = (
    ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
)

LEARN_WITHIN: Final = 0.25
"""Seconds a recording, which is committed by then, waits for this."""
_LEARN: Final = """
insert into durable_context.token_calibrations as known
    (tenant, model, encoding, kind, reports, peak)
values ($1, $2, $3, $4, 1, $5)
on conflict (tenant, model, encoding, kind) do update set
    reports = known.reports + 1,
    peak = greatest(excluded.peak, known.peak + (excluded.peak - known.peak) * $6),
    updated_at = clock_timestamp()
"""


def prompt_tokens(usage: Mapping[str, Any]) -> int | None:
    """Tokens of the prompt, cached ones included, as OpenAI, Anthropic, Bedrock or Gemini report
    them; None where none are named or several calls are added up.
    """
    if (_number(usage.get("requests")) or 1) > 1:
        return None
    for name in _WHOLE_PROMPT:
        if name in usage:
            return _number(usage[name])
    for name, *cached in _BESIDE_CACHED:
        if name in usage:
            named = [name, *(key for key in cached if usage.get(key) is not None)]
            parts = [_number(usage[key]) for key in named]
            return None if None in parts else sum(part for part in parts if part)
    return None


async def learn(
    pool: Pool, tenant: str, prepared: PreparedContext | None, usage: Mapping[str, Any] | None
) -> None:
    """One statement, where the usage says something new of how the model counts.

    The turn is committed by now: that nothing could be learned from it is no error.
    """
    if prepared is None or usage is None or prepared.manifest.model is None:
        return
    try:
        async with asyncio.timeout(LEARN_WITHIN):
            await _learn(pool, tenant, prepared, usage)
    except Exception as error:  # a lock that is held, or what a caller made of the prompt meanwhile
        logger.debug("nothing was learned of a usage: %s", type(error).__name__)


async def _learn(
    pool: Pool, tenant: str, prepared: PreparedContext, usage: Mapping[str, Any]
) -> None:
    manifest, used = prepared.manifest, prompt_tokens(usage)
    if used is None or counted_as(manifest.model or "").is_exact(manifest.encoding):
        return
    text = _of_text(prepared, used)
    if text is None:
        return
    kind = kind_of(extent(_texts(prepared)), text.counted)
    ratio = ratio_reported(text.used, text.counted, manifest.encoding, kind)
    if ratio is None:
        return
    async with acquired(pool) as connection:
        await connection.execute(
            _LEARN, tenant, manifest.model, manifest.encoding, kind, ratio, FADING
        )


class _Text(NamedTuple):
    """What of a prompt is plain text: tokens the model used for it, and as the branch counts."""

    used: int
    counted: int


def _of_text(prepared: PreparedContext, used: int) -> _Text | None:
    """Without what is counted by other rules, so that it cannot pass for a property of texts: None
    where a prompt holds images, sounds or files. Reasoning may not have been billed, so all that
    was used is taken to be text; of tools at least half of what is counted was used. Either makes
    the ratio too high rather than too low.
    """
    if any(map(_holds_media, prepared.messages)) or prepared.parts:
        return None
    counted, encoding = prepared.manifest.counted_tokens, prepared.manifest.encoding
    tools = prepared.budget.tools
    if tools:
        whole = count_tools(tools, token_counter(encoding), None)
        counted -= count_tools(
            tools, token_counter(encoding), counted_as(prepared.manifest.model or "")
        )
        used -= whole // 2
    family = counted_as(prepared.manifest.model or "").family
    for reference in prepared.reasoning:
        own = (one for one in reference.blocks if one.provider == family)
        counted -= sum(map(reasoning_tokens, own))
    return _Text(used, counted)


def _holds_media(message: Mapping[str, Any]) -> bool:
    content: Any = message.get("content")
    parts = cast(list[dict[str, Any]], content) if isinstance(content, list) else []
    return any(part.get("type") != "text" for part in parts)


def _texts(prepared: PreparedContext) -> Iterator[str]:
    for message in prepared.messages:
        content: Any = message.get("content")
        if isinstance(content, str):
            yield content
        elif content:
            yield from (part["text"] for part in content if part.get("type") == "text")
        for call in message.get("tool_calls") or ():
            yield call["function"]["arguments"]


def _number(value: object) -> int | None:
    """A count of tokens: whole and not negative."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
