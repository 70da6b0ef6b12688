"""A summarizer of one sentence that says by whom, of what and for the how manieth time it is."""

import asyncio

from durable_context.errors import SummarizerRejected
from durable_context.summarizers import Attempt, SummaryDraft, SummaryRequest


class Told:
    """A summarizer that says so much, whatever it reads; or fails for good, at some turns."""

    def __init__(
        self,
        recipe: str = "model:told/1",
        fails_at: int | None = None,
        error: Exception | None = None,
    ) -> None:
        self.recipe = recipe
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self._error = error or SummarizerRejected("it refuses")
        self.asked: list[SummaryRequest] = []
        self._fails_at = fails_at

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.asked.append(request)
        if self._fails_at is not None and request.from_turn >= self._fails_at:
            raise self._error
        self.arrived.set()
        await self.gate.wait()
        words = f"{self.recipe} of turns {request.from_turn} to {request.to_turn}"
        read = len(request.turns) + len(request.nodes)
        return SummaryDraft(
            headline=f"Shipments, {words}",
            text=f"Told by {words}, call {len(self.asked)}: {read} shipments left the depot, all of"
            " them on their way to customers who had asked where they are and when they come.",
            made_by=self.recipe,
            attempts=(Attempt(made_by=self.recipe, outcome="ok"),),
        )
