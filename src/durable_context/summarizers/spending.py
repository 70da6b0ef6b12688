"""What calls of models are, and cost, as metrics. A recipe names a model, not what was asked."""

from durable_context.prices import price_of
from durable_context.summarizers import Attempt
from durable_context.telemetry.instruments import (
    summarizer_calls,
    summarizer_cost,
    summarizer_tokens,
)
from durable_context.telemetry.recipes import label_of


async def count_call(call: Attempt) -> None:
    recipe = {"recipe": label_of(call.made_by)}
    summarizer_calls.add(1, recipe | {"outcome": call.outcome})
    summarizer_tokens.add(call.input_tokens, recipe | {"direction": "input"})
    summarizer_tokens.add(call.output_tokens, recipe | {"direction": "output"})
    price = await price_of([call])
    if price is not None:
        summarizer_cost.add(float(price), recipe)
