"""What of the usage that callers report has a name in OpenTelemetry's conventions."""

from collections.abc import Mapping
from typing import Any, Final, cast

from durable_context.telemetry.spans import CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, Said
from durable_context.turns.usage import prompt_tokens

_WRITTEN: Final = (
    ("completion_tokens",),
    ("output_tokens",),
    ("outputTokens",),
    ("total_output_tokens",),
    # Gemini counts thoughts apart.
    ("candidates_token_count", "thoughts_token_count"),
    ("candidatesTokenCount", "thoughtsTokenCount"),
)
_CACHED: Final = (
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cached_content_token_count",
    "cachedContentTokenCount",
)
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")


def usage_attributes(usage: Mapping[str, Any] | None) -> dict[str, Said]:
    """Counts of tokens, whoever's format they are in; nothing else that a usage may hold."""
    if usage is None:
        return {}
    return {
        INPUT_TOKENS: prompt_tokens(usage),
        OUTPUT_TOKENS: _written(usage),
        CACHED_TOKENS: _cached(usage),
    }


def _written(usage: Mapping[str, Any]) -> int | None:
    for name, *beside in _WRITTEN:
        if name in usage:
            counts = [_count(usage[name]), *(_count(usage.get(key)) or 0 for key in beside)]
            return None if counts[0] is None else sum(count or 0 for count in counts)
    return None


def _cached(usage: Mapping[str, Any]) -> int | None:
    for name in _CACHED:
        if name in usage:
            return _count(usage[name])
    for name in _DETAILS:
        if isinstance(details := usage.get(name), dict):
            return _count(cast(dict[str, Any], details).get("cached_tokens"))
    return None


def _count(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None
