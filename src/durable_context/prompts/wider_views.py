"""Room that is left in a reduced prompt goes to its newest views: the model is to read what it just
asked for.
"""

from collections.abc import Iterator

from durable_context.artifacts.offloading import is_pointer
from durable_context.prompts.blocks import Exchange, Parts
from durable_context.prompts.state import View
from durable_context.tokens import TokenCounter
from durable_context.turns.views import view_of

_WIDENED = 4
"""Views at most: each is cut from its message anew."""
_WORTH_IT = 50


def widen_views(parts: Parts, max_tokens: int, counter: TokenCounter) -> None:
    """Show more of messages that are shown as views, or all, in up to `max_tokens` more."""
    for exchange, position in _newest_views(parts):
        if max_tokens < _WORTH_IT:
            return
        before = exchange.shown_tokens(position)
        _widen(exchange, position, before + max_tokens, counter)
        max_tokens -= exchange.shown_tokens(position) - before


def _newest_views(parts: Parts) -> Iterator[tuple[Exchange, int]]:
    found = 0
    for exchange in reversed(parts.raw_and_pending):
        for position in sorted(exchange.viewed, reverse=True):
            if not is_pointer(exchange.messages[position]) and found < _WIDENED:
                found += 1
                yield exchange, position


def _widen(exchange: Exchange, position: int, limit: int, counter: TokenCounter) -> None:
    if exchange.message_tokens[position] <= limit:
        exchange.viewed.remove(position)
        return
    message = exchange.messages[position]
    framed = counter.count_message(message.model_copy(update={"content": ""}))
    wider = view_of(message, max_tokens=max(limit - framed, 1), counter=counter)
    tokens = counter.count_message(wider)
    if exchange.views[position].tokens < tokens <= limit:
        exchange.views = {**exchange.views, position: View(wider, tokens)}
