"""Room that is left in a reduced prompt goes to what is shown as views, the newest first: the model
is to read what it just asked for.
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
    """Show messages whole that are shown as views, or more of those that are pending, in up to
    `max_tokens` more.
    """
    widened = 0
    for exchange, position in _newest_views(parts):
        if max_tokens < _WORTH_IT or widened == _WIDENED:
            return
        before = exchange.shown_tokens(position)
        if exchange.message_tokens[position] <= before + max_tokens:
            exchange.viewed.remove(position)
        elif exchange.turn is None:  # a recorded one was tokenized once, and is not again
            _widen(exchange, position, before + max_tokens, counter)
            widened += 1
        max_tokens -= exchange.shown_tokens(position) - before


def _newest_views(parts: Parts) -> Iterator[tuple[Exchange, int]]:
    for exchange in reversed(parts.raw_and_pending):
        for position in sorted(exchange.viewed, reverse=True):
            if not is_pointer(exchange.messages[position]):
                yield exchange, position


def _widen(exchange: Exchange, position: int, limit: int, counter: TokenCounter) -> None:
    message = exchange.messages[position]
    calls = tuple(call.model_copy(update={"arguments": ""}) for call in message.tool_calls)
    frame = message.model_copy(update={"content": "", "tool_calls": calls})
    framed = exchange.counted(frame, position, counter)
    wider = view_of(message, max_tokens=max(limit - framed, 1), counter=counter)
    tokens = exchange.counted(wider, position, counter)
    if exchange.views[position].tokens < tokens <= limit:
        exchange.views = {**exchange.views, position: View(wider, tokens)}
