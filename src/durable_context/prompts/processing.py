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
from durable_context.prompts.traced import Given, traced

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
            f"prepare() calls no model and does no I/O, so its pipeline cannot have {impure!r}. A"
            " class says that it does neither with `pure = True`; MessageOffloader does neither"
            " without artifacts=, DialogueCompressor without summarizer="
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
    for _ in range(ATTEMPTS):
        fitted = await fit(tight)
        if isinstance(fitted, BudgetExceeded):
            break
        prepared = await _fired(fitted, state, budget, processing)
        over = prepared.token_count - budget.limit
        if over <= 0:
            return prepared
        tight = _limited(budget, fitted.counting.tokens(fitted.parts.tokens) - over)
    return await _smallest(fit, state, budget, processing)


async def _smallest(
    fit: Callable[[Budget], Awaitable[Fitted | BudgetExceeded]],
    state: PromptState,
    budget: Budget,
    processing: Processing,
) -> PreparedContext | BudgetExceeded:
    """What the pipeline leaves of the smallest prompt that can be built, or that it does not fit
    either.
    """
    exceeded = await fit(_limited(budget, 0))
    assert isinstance(exceeded, BudgetExceeded)
    fitted = await fit(_limited(budget, exceeded.smallest))
    if isinstance(fitted, BudgetExceeded):
        return fitted.model_copy(update={"limit": budget.limit})
    prepared = await _fired(fitted, state, budget, processing)
    if prepared.token_count <= budget.limit:
        return prepared
    return BudgetExceeded(
        limit=budget.limit,
        required=max(exceeded.required, prepared.token_count),
        smallest=prepared.token_count,
        blocks=prepared.manifest.blocks,
        token_factor=prepared.manifest.token_factor,
    )


def _limited(budget: Budget, limit: int) -> Budget:
    return budget.model_copy(update={"max_tokens": limit + budget.reserve_output})


async def _fired(
    fitted: Fitted, state: PromptState, budget: Budget, processing: Processing
) -> PreparedContext:
    prepared = prompt(fitted.parts, fitted.reductions, state, budget, fitted.counting)
    stand = places(fitted.parts)
    kinds = [prepared.manifest.blocks[place.first].kind for place in stand]
    given = [
        Record(message) if kind in _RECORDS else Given(deepcopy(message), position)
        for position, (message, kind) in enumerate(zip(prepared.messages, kinds, strict=True))
    ]
    ctx = processing.context(list(given))
    await processing.pipeline.fire(PRE_LLM_CALL, ctx, {})
    check_pure(processing.pipeline)  # one may have registered others
    names = tuple(each.name for each in processing.pipeline.list_processors(PRE_LLM_CALL))
    try:
        kept = traced(prepared.messages, given, read_history(ctx))
    except InvalidTurn as error:
        raise ProcessorError(
            f"after the processors {', '.join(names)} the prompt cannot be sent: {error}"
        ) from error
    return processed_prompt(
        prepared, Processed(kept, stand, names, fitted.counting, state.calibration), ctx
    )
