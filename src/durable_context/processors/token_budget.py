"""Drops old rounds of a history until it is within a token budget."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_context.errors import ProcessorError
from durable_context.processors.history import (
    count_message,
    read_history,
    text_of,
    write_history,
)
from durable_context.processors.pipeline import PRE_LLM_CALL, ContextProcessor
from durable_context.processors.round_window import check_whole, droppable, without
from durable_context.tokens import (
    ENCODINGS,
    REPLY_OVERHEAD,
    TokenCounter,
    loaded_encodings,
    require_tiktoken,
    token_counter,
)

if TYPE_CHECKING:
    from durable_context.processors.context import Context

TRIMMED: Final = "token_budget_trimmed"
_BUDGET: Final = "token_budget"
_ENCODING: Final = "token_encoding"
_IN_THREAD: Final = 100_000
"""Characters that take some 20 ms to count."""
_MESSAGE: Final = 200
"""Characters that take as long to count as a message does besides its text."""


class _Cut(NamedTuple):
    dropped: set[int]
    tokens: int


class TokenBudgetProcessor(ContextProcessor):
    """Drops whole rounds, oldest first, until the history is at most `max_tokens` as a request.

    System messages, exchanges that wait for a result and the current round always stay, so that it
    may be over the limit still. Writes `token_budget_trimmed`: `messages` and `tokens_saved` of
    this run, `tokens` that are left, `limit`, and whether that `fits`.

    `token_budget` and `token_encoding` in `ctx.config.extra` win over what is given here. Raises
    ProcessorError for what is no limit or no encoding, here and there, and ImportError where
    tiktoken is not installed.
    """

    pure = True

    def __init__(
        self,
        *,
        max_tokens: int = 100_000,
        encoding: str = "cl100k_base",
        name: str = "token_budget",
    ) -> None:
        require_tiktoken()
        super().__init__(PRE_LLM_CALL, name=name)
        check_whole("max_tokens", max_tokens)
        _check_encoding("encoding", encoding)
        self._max_tokens = max_tokens
        self._encoding = encoding

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def encoding(self) -> str:
        return self._encoding

    def count_tokens(self, text: str) -> int:
        """In the encoding given here. Special-token text counts as the ordinary text it is."""
        return token_counter(self._encoding).count(text)

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        limit, counter = self._budget(ctx)
        messages, counts = await _counted(ctx, counter)
        if not messages:
            return
        cut = _cut(messages, counts, limit)
        if cut.dropped:
            write_history(ctx, without(messages, cut.dropped))
        trimmed = {
            "messages": len(cut.dropped),
            "tokens_saved": sum(counts[position] for position in cut.dropped),
            "tokens": cut.tokens,
            "limit": limit,
            "fits": cut.tokens <= limit,
        }
        ctx.state.set(TRIMMED, trimmed)

    def _budget(self, ctx: "Context") -> tuple[int, TokenCounter]:
        extra = ctx.config.extra
        limit = extra.get(_BUDGET, self._max_tokens)
        encoding = extra.get(_ENCODING, self._encoding)
        check_whole(f"extra[{_BUDGET!r}]", limit)
        _check_encoding(f"extra[{_ENCODING!r}]", encoding)
        return limit, token_counter(encoding)


def _check_encoding(name: str, value: object) -> None:
    if value not in ENCODINGS:
        raise ProcessorError(f"{name}={value!r:.80}; allowed are {', '.join(ENCODINGS)}")


async def _counted(ctx: "Context", counter: TokenCounter) -> tuple[list[Any], list[int]]:
    """The messages and the tokens of each, also of those that came while a thread counted."""
    counted: dict[int, tuple[int, Any]] = {}  # with the message, so that its id remains its own
    messages = read_history(ctx)
    while missing := [message for message in messages if id(message) not in counted]:
        tokens = await _count(missing, counter)
        counted |= zip(map(id, missing), zip(tokens, missing, strict=True), strict=True)
        messages = read_history(ctx)
    return messages, [counted[id(message)][0] for message in messages]


async def _count(messages: Sequence[Any], counter: TokenCounter) -> list[int]:
    def count() -> list[int]:
        return [count_message(message, counter) for message in messages]

    small = sum(_MESSAGE + len(text_of(message)) for message in messages) <= _IN_THREAD
    loaded = counter.encoding in loaded_encodings()
    return count() if small and loaded else await asyncio.to_thread(count)


def _cut(messages: Sequence[Any], counts: Sequence[int], limit: int) -> _Cut:
    dropped: set[int] = set()
    tokens = REPLY_OVERHEAD + sum(counts)
    for each in droppable(messages)[:-1]:
        if tokens <= limit:
            break
        dropped.update(each)
        tokens -= sum(counts[position] for position in each)
    return _Cut(dropped, tokens)
