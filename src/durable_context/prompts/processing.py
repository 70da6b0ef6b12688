"""A prompt through a pipeline: `pre_llm_call` is fired over all of it, and the budget holds after
that.
"""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any, NamedTuple

from durable_context.errors import InvalidTurn, ProcessorError
from durable_context.processors.context import Context
from durable_context.processors.history import Record, read_history
from durable_context.processors.pipeline import PRE_LLM_CALL, ProcessorPipeline
from durable_context.prompts.assembly import Fitted
from durable_context.prompts.places import places
from durable_context.prompts.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.prompts.processed import Processed, processed_prompt
from durable_context.prompts.state import PromptState
from durable_context.prompts.text import prompt
from durable_context.prompts.traced import traced

ATTEMPTS = 4
"""Processors that add to a prompt get a smaller one, so often; then it does not fit."""

_RECORDS = ("checkpoint", "digest", "ledger", "retrieved")


class Processing(NamedTuple):
    """A pipeline, and what makes the context it is fired over, from a history."""

    pipeline: ProcessorPipeline
    context: Callable[[list[Any]], Context]


def check_pipeline(pipeline: object) -> None:
    """Raises ProcessorError."""
    if pipeline is not None and not isinstance(pipeline, ProcessorPipeline):
        raise ProcessorError(f"pipeline={pipeline!r:.80}; it must be a ProcessorPipeline")


def check_pure(pipeline: ProcessorPipeline) -> None:
    """Raises ProcessorError with the names of those that prepare() must not call."""
    impure = [each.name for each in pipeline.list_processors(PRE_LLM_CALL) if not each.pure]
    if impure:
        raise ProcessorError(
            f"prepare() calls no model and does no I/O, so its pipeline cannot have {impure!r}:"
            f" processors of {PRE_LLM_CALL!r} must be pure"
        )


async def assemble_processed(
    fit: Callable[[Budget], Awaitable[Fitted | BudgetExceeded]],
    state: PromptState,
    budget: Budget,
    processing: Processing,
) -> PreparedContext | BudgetExceeded:
    """The prompt as the pipeline leaves it. Raises ProcessorError where that cannot be sent, and
    what a processor raises.
    """
    tight = budget
    prepared: PreparedContext | None = None
    for _ in range(ATTEMPTS):
        fitted = await fit(tight)
        if isinstance(fitted, BudgetExceeded):
            return _refused(fitted, added=budget.limit - tight.limit, limit=budget.limit)
        prepared = await _fired(fitted, state, budget, processing)
        over = prepared.token_count - budget.limit
        if over <= 0:
            return prepared
        room = fitted.counting.tokens(fitted.parts.tokens) - over
        tight = budget.model_copy(update={"max_tokens": room + budget.reserve_output})
    assert prepared is not None
    return BudgetExceeded(
        limit=budget.limit,
        required=prepared.token_count,
        smallest=prepared.token_count,
        blocks=prepared.manifest.blocks,
        token_factor=prepared.manifest.token_factor,
    )


def _refused(exceeded: BudgetExceeded, *, added: int, limit: int) -> BudgetExceeded:
    """`added`: what processors add to the prompt."""
    update = {
        "limit": limit,
        "required": exceeded.required + added,
        "smallest": exceeded.smallest + added,
    }
    return exceeded.model_copy(update=update)


async def _fired(
    fitted: Fitted, state: PromptState, budget: Budget, processing: Processing
) -> PreparedContext:
    prepared = prompt(fitted.parts, fitted.reductions, state, budget, fitted.counting)
    stand = places(fitted.parts)
    kinds = [prepared.manifest.blocks[place.first].kind for place in stand]
    given = [
        Record(message) if kind in _RECORDS else deepcopy(message)
        for message, kind in zip(prepared.messages, kinds, strict=True)
    ]
    ctx = processing.context(list(given))
    await processing.pipeline.fire(PRE_LLM_CALL, ctx, {})
    try:
        kept = traced(prepared.messages, given, read_history(ctx))
    except InvalidTurn as error:
        raise ProcessorError(
            f"after {PRE_LLM_CALL!r} the prompt cannot be sent: {error}"
        ) from error
    names = [each.name for each in processing.pipeline.list_processors(PRE_LLM_CALL)]
    return processed_prompt(
        prepared, Processed(kept, stand, tuple(names), fitted.counting, state.calibration), ctx
    )
