"""How much of a prompt a prefix cache serves that holds the prompt before it: the tokens of the
messages both begin with, and of the text that the first different messages begin with alike.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from benchmarks.baselines import Prompt, tokens_of
from durable_context.tokens import TokenCounter, token_counter

Messages = Sequence[Mapping[str, Any]]

SHORTEST = 1_024
STEP = 128
"""OpenAI caches prefixes of at least 1,024 tokens, in steps of 128."""


def common_tokens(before: Messages, prompt: Messages, counter: TokenCounter) -> int:
    total = 0
    for one, other in zip(before, prompt, strict=False):
        if one != other:
            return total + _common_text(_rendered(one), _rendered(other), counter)
        total += _tokens(json.dumps(other), counter.encoding)
    return total


def common_length(one: str, other: str) -> int:
    """Characters that both begin with."""
    parts = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(parts, min(len(one), len(other)))


def in_steps(tokens: int) -> int:
    """Of a common prefix of so many tokens, what OpenAI serves from its cache."""
    return 0 if tokens < SHORTEST else tokens - (tokens - SHORTEST) % STEP


def _rendered(message: Mapping[str, Any]) -> str:
    """The message as one text, in the order in which a model reads it."""
    parts = [message["role"], message.get("name"), message.get("tool_call_id")]
    content = message.get("content")
    parts.append(content if isinstance(content, str | None) else json.dumps(content))
    for call in message.get("tool_calls") or ():
        parts += [call["id"], call["function"]["name"], call["function"]["arguments"]]
    return "\n".join(filter(None, parts))


@lru_cache(maxsize=20_000)
def _tokens(message: str, encoding: str) -> int:
    return tokens_of(json.loads(message), token_counter(encoding))


def _common_text(one: str, other: str, counter: TokenCounter) -> int:
    """Tokens of what both begin with; the last, which may go on differently, is not counted."""
    return max(0, counter.count(one[: common_length(one, other)]) - 1)


@dataclass
class Account:
    """Prompts of one kind at one budget."""

    name: str
    budget: int | None
    prompts: int = 0
    exceeded: int = 0
    tokens: int = 0
    cached: int = 0
    cached_in_steps: int = 0
    _before: dict[str, Messages] = field(default_factory=dict[str, Messages])

    def add(self, branch: str, prompt: Prompt | None, counter: TokenCounter) -> None:
        """The next prompt of a branch. After None, for no prompt, the one before counts."""
        if prompt is None:
            self.exceeded += 1
            return
        common = common_tokens(self._before.get(branch, ()), prompt.messages, counter)
        self._before[branch] = prompt.messages
        self.prompts += 1
        self.tokens += prompt.tokens
        self.cached += common
        self.cached_in_steps += in_steps(common)

    @property
    def share(self) -> float:
        return self.cached / self.tokens if self.tokens else 0.0

    @property
    def share_in_steps(self) -> float:
        return self.cached_in_steps / self.tokens if self.tokens else 0.0

    @property
    def mean_tokens(self) -> float:
        return self.tokens / self.prompts if self.prompts else 0.0

    def net_tokens(self, price: float) -> float:
        """Mean tokens of a prompt, those from the cache at a part of the price."""
        saved = self.cached_in_steps * (1 - price)
        return (self.tokens - saved) / self.prompts if self.prompts else 0.0
