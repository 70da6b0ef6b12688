"""A prompt through a pipeline: `pre_llm_call` is fired over all of it, and the budget holds after
that.
"""

from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any, NamedTuple

from durable_context.errors import InvalidTurn, ProcessorError
from durable_context.processors.config import ContextConfig
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

ATTEMPTS = 7
WIDE_ATTEMPTS = 4
"""So often a prompt that processors leave too large is made anew from less, before it is the
smallest there is; so often from more than the budget.
"""

_ALL = 2**31 - 1
_RECORDS = ("checkpoint", "pinned", "digest", "ledger", "retrieved", "task")
"""Blocks that no processor may touch: what stands for earlier turns, and what a long run is for."""


class Processing(NamedTuple):
    """A pipeline, and what makes the context it is fired over, from a history."""

    pipeline: ProcessorPipeline
    context: Callable[[list[Any]], Context]


def check_pipeline(pipeline: object, config: object) -> None:
    """Raises ProcessorError."""
    if pipeline is not None and not isinstance(pipeline, ProcessorPipeline):
        raise ProcessorError(f"pipeline={pipeline!r:.80}; it must be a ProcessorPipeline")
    if config is not None and not isinstance(config, ContextConfig):
        raise ProcessorError(f"config={config!r:.80}; it must be a ContextConfig")


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
    """The prompt as the pipeline leaves it: of all there is, if that is within the budget, else of
    as much as it takes. Raises ProcessorError where that cannot be sent, and what a processor
    raises.
    """
    limits = _Limits(budget)
    required = 0
    for _ in range(ATTEMPTS):
        fitted = await fit(limits.next)
        if isinstance(fitted, BudgetExceeded):
            break
        prepared = await _fired(fitted, state, budget, processing)
        if prepared.token_count <= budget.limit:
            return prepared
        required = max(required, prepared.token_count)
        limits.narrow(fitted.counting.tokens(fitted.parts.tokens), prepared.token_count)
    return await _smallest(fit, state, budget, processing, required)


class _Limits:
    """Budgets to try: one that holds all, then smaller ones. What a pipeline shortens anyway need
    not be left out, so that the first are larger than what is asked for; the last ones are not.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._tried = 0
        self.next = _limited(budget, _ALL)

    def narrow(self, size: int, processed: int) -> None:
        """After a prompt of one size that the pipeline made one of another of, too large."""
        self._tried += 1
        limit = size - (processed - self._budget.limit)
        if self._tried >= WIDE_ATTEMPTS:
            limit = min(limit, self._budget.limit)
        self.next = _limited(self._budget, limit)


async def _smallest(
    fit: Callable[[Budget], Awaitable[Fitted | BudgetExceeded]],
    state: PromptState,
    budget: Budget,
    processing: Processing,
    required: int,
) -> PreparedContext | BudgetExceeded:
    """What the pipeline leaves of the smallest prompt that can be built, or that it does not fit
    either.
    """
    exceeded = await fit(_limited(budget, 0))
    assert isinstance(exceeded, BudgetExceeded)
    fitted = await fit(_limited(budget, exceeded.smallest))
    if isinstance(fitted, BudgetExceeded):
        return exceeded.model_copy(update={"limit": budget.limit})
    prepared = await _fired(fitted, state, budget, processing)
    if prepared.token_count <= budget.limit:
        return prepared
    return BudgetExceeded(
        limit=budget.limit,
        required=max(required, prepared.token_count),
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
        Record(message) if kind in _RECORDS else Given(message, position)
        for position, (message, kind) in enumerate(zip(_handed_over(prepared), kinds, strict=True))
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


def _handed_over(prepared: PreparedContext) -> list[dict[str, Any]]:
    """Copies of the messages. Images and files in them are what the branch keeps of them: the text
    that stands for one in the prompt is no text to a processor.
    """
    messages = deepcopy(list(prepared.messages))
    for part in prepared.parts:
        messages[part.message]["content"][part.part] = deepcopy(part.stored)
    return messages
