"""Tokens of what stands around the text of a block, counted once."""

from functools import lru_cache

from durable_context.models import Message
from durable_context.prompts.rendering import FOOT
from durable_context.tokens import token_counter


@lru_cache(maxsize=64)
def frame_tokens(encoding: str, head: str) -> int:
    """Tokens of a block's message around its lines."""
    counter = token_counter(encoding)
    overhead = counter.count_message(Message(role="user", content=""))
    return overhead + counter.count(head) + counter.count(FOOT)


@lru_cache(maxsize=4096)
def label_tokens(encoding: str, label: str) -> int:
    return token_counter(encoding).count(label) if label else 0


@lru_cache(maxsize=8)
def message_overhead(encoding: str) -> int:
    """Tokens of an empty user message."""
    return token_counter(encoding).count_message(Message(role="user", content=""))
