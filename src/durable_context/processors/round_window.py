"""Keeps the newest rounds of a history: whole ones, so that no answer is without its question."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from durable_context.errors import ProcessorError
from durable_context.processors.history import (
    read_history,
    rounds,
    stays,
    unanswered,
    write_history,
)
from durable_context.processors.pipeline import PRE_LLM_CALL, ContextProcessor

if TYPE_CHECKING:
    from durable_context.processors.context import Context


class RoundWindowProcessor(ContextProcessor):
    """Drops the rounds before the newest `max_rounds`, `ctx.config.history_rounds` if it is None.

    A round is what the user says and all up to what he says next; the current one counts, complete
    or not. System messages and exchanges that wait for a result stay where they are. Raises
    ProcessorError unless `max_rounds` is a whole number from 1.
    """

    pure = True

    def __init__(self, *, max_rounds: int | None = None, name: str = "round_window") -> None:
        super().__init__(PRE_LLM_CALL, name=name)
        if max_rounds is not None:
            check_whole("max_rounds", max_rounds)
        self._max_rounds = max_rounds

    @property
    def max_rounds(self) -> int | None:
        """None: as many as the context's config says."""
        return self._max_rounds

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        messages = read_history(ctx)
        newest = self._max_rounds or ctx.config.history_rounds
        dropped = {position for each in droppable(messages)[:-newest] for position in each}
        if dropped:
            write_history(ctx, without(messages, dropped))


def droppable(messages: Sequence[Any]) -> list[list[int]]:
    """Of each round the positions that may go with it."""
    waiting = unanswered(messages)
    return [
        [n for n in each if n not in waiting and not stays(messages[n])]
        for each in rounds(messages)
    ]


def without(messages: Sequence[Any], dropped: set[int]) -> list[Any]:
    return [message for position, message in enumerate(messages) if position not in dropped]


def check_whole(name: str, value: object) -> None:
    """Raises ProcessorError unless it is a whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ProcessorError(f"{name}={value!r:.80}; it must be a whole number from 1")
