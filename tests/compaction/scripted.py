"""A summarizer whose words are made up: what it does is said in advance, call by call."""

import asyncio
from collections.abc import Callable

from durable_context.summarizers import Attempt, SummaryDraft, SummaryRequest


class ScriptedSummarizer:
    """Answers each request in order of arrival by `script`, then by made-up words."""

    def __init__(self, *script: "Exception | SummaryDraft", recipe: str = "scripted/1") -> None:
        self.recipe = recipe
        self.asked: list[SummaryRequest] = []
        self.before: Callable[[], None] = lambda: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self._script = list(script)

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        self.asked.append(request)
        self.before()
        self.arrived.set()
        await self.gate.wait()
        answer = self._script.pop(0) if self._script else self._made_up(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _made_up(self, request: SummaryRequest) -> SummaryDraft:
        turns = f"{request.from_turn} to {request.to_turn}"
        return SummaryDraft(
            headline=f"Shipments of turns {turns}",
            text=f"The user asked where shipments {turns} are; all had left the depot.",
            made_by=self.recipe,
            attempts=(
                Attempt(made_by=self.recipe, outcome="ok", input_tokens=500, output_tokens=20),
            ),
        )
