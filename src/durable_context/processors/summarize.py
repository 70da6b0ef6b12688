"""Says which messages are to be summarized, once a history is longer than it should be."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from durable_context.processors.history import (
    in_flight,
    read_history,
    stays,
    tool_exchanges,
    unanswered,
)
from durable_context.processors.pipeline import PRE_LLM_CALL, ContextProcessor

if TYPE_CHECKING:
    from durable_context.processors.context import Context

NEEDS_SUMMARY: Final = "needs_summary"
SUMMARY_CANDIDATES: Final = "summary_candidates"


class SummarizeProcessor(ContextProcessor):
    """Marks the oldest messages beyond `ctx.config.summary_threshold`. The history stays as it is,
    and no model is called.

    All messages count. System messages are no candidates, nor are exchanges that wait for a result
    or for the model, and no exchange is a candidate in part. Writes `needs_summary` and
    `summary_candidates`, a new list of the messages themselves; both are cleared when there is
    nothing left to summarize, and not written before there was.
    """

    pure = True

    def __init__(self, *, name: str = "summarize") -> None:
        super().__init__(PRE_LLM_CALL, name=name)

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        messages = read_history(ctx)
        excess = len(messages) - ctx.config.summary_threshold
        candidates = [messages[position] for position in _oldest(messages, excess)]
        if candidates or _marked(ctx):
            ctx.state.set(NEEDS_SUMMARY, bool(candidates))
            ctx.state.set(SUMMARY_CANDIDATES, candidates)


def _marked(ctx: "Context") -> bool:
    return bool(ctx.state.get(NEEDS_SUMMARY) or ctx.state.get(SUMMARY_CANDIDATES))


def _oldest(messages: Sequence[Any], wanted: int) -> list[int]:
    """Positions of that many messages that may be summarized, fewer where the last would be in an
    exchange that goes on. An exchange that comes first is taken whole.
    """
    if wanted <= 0:
        return []
    allowed = _allowed(messages)
    taken, left = allowed[:wanted], allowed[wanted:]
    for exchange in tool_exchanges(messages) if taken and left else ():
        if exchange.start <= taken[-1] and left[0] < exchange.stop:
            before = [position for position in taken if position < exchange.start]
            return before or [position for position in allowed if position < exchange.stop]
    return taken


def _allowed(messages: Sequence[Any]) -> list[int]:
    waiting = unanswered(messages)
    return [
        position
        for position in range(in_flight(messages))
        if position not in waiting and not stays(messages[position])
    ]
