"""How large a summary may be, for those who make one and those who check it."""

from typing import Final

from durable_context.summarizers import SummaryRequest

TINY: Final = 64
"""An input of fewer tokens cannot be told in fewer: its summary may have this many."""
SHARE: Final = 0.6
"""What a summarizer aims at, of its input."""


def input_tokens(request: SummaryRequest) -> int:
    return sum(turn.token_count for turn in request.turns) + sum(
        node.token_count for node in request.nodes
    )


def size_limit(tokens: int) -> int:
    """Headline and text of a summary together stay below this many tokens."""
    return max(tokens, TINY)


def headline_cap(request: SummaryRequest) -> int:
    return min(request.headline_max_tokens, size_limit(input_tokens(request)) // 3)


def text_cap(request: SummaryRequest, tokens: int | None = None) -> int:
    """The tokens a summarizer aims at: the caller's cap, and clearly less than the input, whose
    size is `tokens` where it is not that of the request.
    """
    tokens = input_tokens(request) if tokens is None else tokens
    aim = max(int(SHARE * tokens), TINY // 2)
    return min(request.max_tokens, aim, size_limit(tokens) - headline_cap(request) - 1)
