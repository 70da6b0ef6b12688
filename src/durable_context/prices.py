"""What calls of models cost, by the list prices that come with the package genai-prices, which
pydantic-ai brings. Nothing is fetched.
"""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from durable_context.summarizers import Attempt
from durable_context.summarizers.extractive import RECIPE as EXTRACTIVE

_OTHER_NAMES = {"openai-chat": "openai", "openai-responses": "openai"}
_FREE = Decimal(0)


async def price_of(calls: Sequence[Attempt]) -> Decimal | None:
    """In US dollars; None unless all are known: the models, what they cost, and the tokens."""
    if all(_is_free(call) for call in calls):
        return _FREE
    return await asyncio.to_thread(_sum, calls)  # the first use reads the list of prices


def _sum(calls: Sequence[Attempt]) -> Decimal | None:
    prices = [_price(call) for call in calls]
    known = [price for price in prices if price is not None]
    return sum(known, _FREE) if len(known) == len(prices) else None


def _price(call: Attempt) -> Decimal | None:
    if _is_free(call):
        return _FREE
    kind, _, rest = call.made_by.partition("/")
    model = rest.rpartition("/")[0]
    provider, _, name = model.partition(":")
    if kind != "model" or not name or call.input_tokens == 0:
        return None
    return _listed(_OTHER_NAMES.get(provider, provider), name, call)


def _listed(provider: str, name: str, call: Attempt) -> Decimal | None:
    try:
        from genai_prices import Usage, calc_price
    except ModuleNotFoundError:  # it comes with the extra `models`
        return None
    usage = Usage(input_tokens=call.input_tokens, output_tokens=call.output_tokens)
    try:
        return calc_price(usage, name, provider_id=provider).total_price
    except LookupError:
        return None


def _is_free(call: Attempt) -> bool:
    """No model was asked, or none answered: what providers refuse they do not charge."""
    spent = call.input_tokens + call.output_tokens
    return spent == 0 and (call.made_by == EXTRACTIVE or call.outcome != "ok")
