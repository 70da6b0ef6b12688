"""Pipelines of made-up processors, and branches for them to work on."""

from collections.abc import Callable
from typing import Any

from durable_context import Branch, Budget, CompactionPolicy, ContextClient
from durable_context.processors.context import Context
from durable_context.processors.history import read_history, write_history
from durable_context.processors.pipeline import ContextProcessor, ProcessorPipeline
from tests.turns import numbered

WIDE = Budget(max_tokens=100_000, instructions="You are a clerk.")
POLICY = CompactionPolicy()
Change = Callable[[list[Any]], list[Any]]


class Changing(ContextProcessor):
    """A pure processor of a user's own."""

    pure = True

    def __init__(self, change: Change, name: str = "changing") -> None:
        super().__init__("pre_llm_call", name=name)
        self._change = change

    async def process(self, ctx: Context, payload: dict[str, Any]) -> None:
        write_history(ctx, self._change(read_history(ctx)))


def changing(change: Change) -> ProcessorPipeline:
    return ProcessorPipeline().register(Changing(change))


async def recorded(client: ContextClient, turns: int, conversation: str = "c") -> Branch:
    branch = await client.open_branch(conversation)
    for n in range(1, turns + 1):
        await branch.record_turn(numbered(n))
    return branch
