"""Plays the traces and asks every prompt, ours and the others', for the values of the next call."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.baselines import (
    Context,
    LastMessages,
    MaskedResults,
    Prompt,
    Replay,
    RollingSummary,
    step_of,
)
from benchmarks.database import ENCODING, Database, Report, compact, silence
from benchmarks.playing import Moment, moments
from benchmarks.recall.misses import Miss, missed
from benchmarks.recall.values import Asked, appeared, holds, text_of
from benchmarks.traces import Trace
from durable_context import Branch, Budget, PreparedContext
from durable_context.tokens import TokenCounter, token_counter

Values = Callable[[Mapping[str, Any]], Iterable[Asked]]

OURS = "durable context"
REPLAY = "full replay"
OTHERS: Mapping[str, Callable[[int, TokenCounter], Context]] = {
    "last messages": lambda budget, _: LastMessages(budget),
    "masked tool results": lambda budget, _: MaskedResults(budget),
    "rolling summary": lambda budget, counter: RollingSummary(budget, counter),
}


@dataclass
class Tally:
    """Of one kind of prompt at one budget; replay has none."""

    name: str
    budget: int | None
    asked: int = 0
    found: int = 0
    exceeded: int = 0
    tokens: list[int] = field(default_factory=list[int])

    @property
    def share(self) -> float:
        return self.found / self.asked if self.asked else 1.0

    @property
    def mean_tokens(self) -> float:
        return sum(self.tokens) / len(self.tokens) if self.tokens else 0.0

    def count(self, asked: int, found: int, prompt: Prompt | None) -> None:
        self.asked += asked
        self.found += found
        if prompt is None:
            self.exceeded += 1
        else:
            self.tokens.append(prompt.tokens)


@dataclass
class Recall:
    """What was measured on one corpus. `misses` are ours, by budget."""

    corpus: str
    branches: int = 0
    turns: int = 0
    calls: int = 0
    seconds: float = 0.0
    tallies: dict[tuple[str, int | None], Tally] = field(
        default_factory=dict[tuple[str, int | None], Tally]
    )
    misses: dict[int, list[Miss]] = field(default_factory=dict[int, list[Miss]])

    def tally(self, name: str, budget: int | None) -> Tally:
        return self.tallies.setdefault((name, budget), Tally(name, budget))


class Asking:
    """One branch: our prompts and the others', asked at each tool call."""

    def __init__(self, branch: Branch, budgets: Sequence[int], into: Recall) -> None:
        self._branch = branch
        self._budgets = budgets
        self._into = into
        self._counter = token_counter(ENCODING)
        self._replay = Replay()
        self._others = {
            (name, budget): make(budget, self._counter)
            for name, make in OTHERS.items()
            for budget in budgets
        }
        self._turn = 0

    async def saw(self, moment: Moment) -> None:
        """Tells the others what was said since the moment before."""
        for messages in moment.steps:
            step = step_of(messages, self._counter)
            self._turn += messages[0]["role"] == "user"
            for context in (self._replay, *self._others.values()):
                await context.add(step)

    async def ask(self, moment: Moment, asked: Sequence[Asked]) -> None:
        self._into.calls += 1
        for budget in self._budgets:
            await self._ask_ours(moment, asked, budget)
        for (name, budget), context in self._others.items():
            self._count(name, budget, asked, context.prompt())
        self._count(REPLAY, None, asked, self._replay.prompt())

    async def _ask_ours(self, moment: Moment, asked: Sequence[Asked], budget: int) -> None:
        prepared = await self._branch.prepare(
            None, budget=Budget(max_tokens=budget), pending=moment.pending
        )
        prompt = None
        if isinstance(prepared, PreparedContext):
            prompt = Prompt(prepared.messages, prepared.token_count)
        for each in self._count(OURS, budget, asked, prompt):
            found = await missed(self._branch, moment, self._turn, each, prepared)
            self._into.misses.setdefault(budget, []).append(found)

    def _count(
        self, name: str, budget: int | None, asked: Sequence[Asked], prompt: Prompt | None
    ) -> list[Asked]:
        """What the prompt does not hold."""
        texts = [text_of(message) for message in prompt.messages] if prompt else []
        absent = [each for each in asked if not any(holds(text, each.value) for text in texts)]
        self._into.tally(name, budget).count(len(asked), len(asked) - len(absent), prompt)
        return absent


async def measure(
    database: Database,
    corpus: str,
    traces: Sequence[Trace],
    values: Values,
    budgets: Sequence[int],
    report: Report,
) -> Recall:
    recall = Recall(corpus)
    client = database.client(fast=True)
    for trace in traces:
        branch = await client.open_branch(trace.name)
        asking = Asking(branch, budgets, recall)

        async def keep_up(branch: Branch = branch) -> None:
            await compact(database.not_waiting, branch, silence)

        async for moment in moments(branch, trace, keep_up):
            await asking.saw(moment)
            if moment.said.get("tool_calls"):
                await asking.ask(moment, appeared(values(moment.said), moment.before))
        recall.branches += 1
        recall.turns += sum(task.turns for task in trace.tasks)
        report(f"{trace.name}: asked {recall.calls:,} calls")
    return recall
