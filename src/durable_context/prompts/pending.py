"""Exchanges that are not recorded yet. They stay, so nothing but smaller views can shorten them."""

from collections.abc import Iterator

from durable_context.prompts.blocks import Exchange
from durable_context.prompts.state import View
from durable_context.tokens import TokenCounter
from durable_context.turns.views import shorter_view

TIGHTER = (100, 50, 25, 10)
"""Caps on views where many at once leave no room for those of `view_tokens`."""


def tightened(exchange: Exchange, counter: TokenCounter) -> Iterator[list[int]]:
    """Smaller and smaller views of all its messages, in place. Yields the positions of those that
    stood whole before.
    """
    for cap in TIGHTER:
        whole: list[int] = []
        for position, message in enumerate(exchange.shown(), exchange.skip):
            short = shorter_view(message, max_tokens=cap, counter=counter)
            view = View(short, exchange.counted(short, position, counter))
            if view.tokens < exchange.shown_tokens(position):
                exchange.views[position] = view
                if position not in exchange.viewed:
                    whole.append(position)
        exchange.viewed.update(whole)
        yield whole
