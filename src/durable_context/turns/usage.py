"""What callers report of the model call that a prompt led to, and what is learned of it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import asyncpg

from durable_context.calibration import FADING, extent, kind_of, ratio_reported
from durable_context.database import Pool, acquired
from durable_context.errors import DurableContextError
from durable_context.model_tokens import counted_as
from durable_context.prompts.prepared import PreparedContext

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
    manifest, used = prepared.manifest, prompt_tokens(usage)
    if used is None or counted_as(prepared.manifest.model).is_exact(manifest.encoding):
        return
    kind = kind_of(extent(_texts(prepared)), manifest.counted_tokens)
    ratio = ratio_reported(used, manifest.counted_tokens, manifest.encoding, kind)
    if ratio is None:
        return
    try:
        async with acquired(pool) as connection:
            await connection.execute(
                _LEARN, tenant, manifest.model, manifest.encoding, kind, ratio, FADING
            )
    except (DurableContextError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        pass


def _texts(prepared: PreparedContext) -> Iterator[str]:
    if prepared.budget.tools:
        yield json.dumps(prepared.budget.tools, ensure_ascii=False)
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
