"""Spans and metrics of what an agent's process asks of a branch: decorators of its methods."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from uuid import UUID

from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span

from durable_context.compaction.run_texts import shown
from durable_context.contracts import CompactionResult
from durable_context.contracts.rebuild import RebuildResult
from durable_context.models import Turn
from durable_context.policy import CompactionPolicy
from durable_context.prompts.prepared import BudgetExceeded, PreparedContext
from durable_context.resources import Resources
from durable_context.telemetry import instruments, spans
from durable_context.telemetry.prompts import measure_prompt, prompt_attributes
from durable_context.telemetry.usage import usage_attributes

P = ParamSpec("P")
R = TypeVar("R")


class Observed(Protocol):
    """What of a branch a span tells."""

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    policy: CompactionPolicy
    _resources: Resources


B = TypeVar("B", bound=Observed)
Method = Callable[Concatenate[B, P], Awaitable[R]]
Wrapped = Callable[Concatenate[B, P], Coroutine[Any, Any, R]]


def observed_prepare(
    method: Method[B, P, PreparedContext | BudgetExceeded],
) -> Wrapped[B, P, PreparedContext | BudgetExceeded]:
    def tell(current: Span, prepared: PreparedContext | BudgetExceeded) -> str:
        measure_prompt(prepared)
        if current.is_recording():
            spans.say(current, prompt_attributes(prepared))
        return "prepared" if prepared else "over_budget"

    return _observed(method, spans.PREPARE, tell, instruments.prepare_duration)


def observed_record(method: Method[B, P, Turn]) -> Wrapped[B, P, Turn]:
    def tell(current: Span, turn: Turn) -> str:
        if not turn.repeated:
            instruments.record_tokens.add(turn.token_count)
        if current.is_recording():
            spans.say(current, _turn_attributes(turn))
        return "repeated" if turn.repeated else "recorded"

    return _observed(method, spans.RECORD_TURN, tell, instruments.record_duration)


def observed_compact(method: Method[B, P, CompactionResult]) -> Wrapped[B, P, CompactionResult]:
    return _observed(method, spans.COMPACT, tell_compaction)


def observed_rebuild(method: Method[B, P, RebuildResult]) -> Wrapped[B, P, RebuildResult]:
    def tell(current: Span, result: RebuildResult) -> str:
        figures: dict[str, spans.Said] = {
            spans.REPLACED: result.replaced,
            spans.MERGED: result.merged,
            spans.SKIPPED: result.skipped,
            spans.LEFT: result.left,
            spans.DEGRADED: result.degraded,
            spans.CHECKPOINT_TURN: result.checkpoint_turn,
        }
        spans.say(current, figures)
        return "paused" if result.paused else "rebuilt"

    return _observed(method, spans.REBUILD, tell)


def tell_compaction(current: Span, result: CompactionResult) -> str:
    figures: dict[str, spans.Said] = {
        spans.PASSES: result.passes,
        spans.FROM_TURN: result.from_turn,
        spans.CHECKPOINT_TURN: result.checkpoint_turn,
        spans.TOKENS_BEFORE: result.tokens_before,
        spans.TOKENS_AFTER: result.tokens_after,
        spans.DEGRADED: result.degraded,
        spans.ATTEMPTS: result.attempts,
        spans.RECIPE: result.recipe or None,
    }
    spans.say(current, figures)
    return "paused" if result.paused else "compacted"


def _observed(
    method: Method[B, P, R],
    name: str,
    tell: Callable[[Span, R], str],
    duration: Histogram | None = None,
) -> Wrapped[B, P, R]:
    """The method in a span. `tell` says there what came of it, and returns the outcome in a word,
    which is "error" for what raises.
    """

    @wraps(method)
    async def observed(self: B, *args: P.args, **kwargs: P.kwargs) -> R:
        outcome, began = "error", perf_counter()
        with spans.span(name, _branch_attributes(self)) as current:
            try:
                result = await method(self, *args, **kwargs)
                outcome = tell(current, result)
                return result
            finally:
                current.set_attribute(spans.OUTCOME, outcome)
                if duration is not None:
                    duration.record(perf_counter() - began, {"outcome": outcome})

    return observed


def _branch_attributes(branch: Observed) -> dict[str, spans.Said]:
    if not branch.policy.expose_ids:
        return spans.branch_attributes(branch.branch_uuid)
    named = spans.branch_attributes(branch.branch_uuid, shown(branch.conversation_id))
    tenant = shown(branch._resources.tenant)  # pyright: ignore[reportPrivateUsage]
    return named | {spans.BRANCH_ID: shown(branch.branch_id), spans.TENANT: tenant}


def _turn_attributes(turn: Turn) -> dict[str, spans.Said]:
    figures: dict[str, spans.Said] = {
        spans.TURN: turn.turn_no,
        spans.TURN_TOKENS: turn.token_count,
        spans.TURN_MESSAGES: len(turn.messages),
        spans.TURN_OUTCOME: turn.outcome,
    }
    return figures | usage_attributes(turn.usage)
