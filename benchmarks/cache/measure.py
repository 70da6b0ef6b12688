"""Prepares the prompt of every call, ours and the others', and books what a cache would serve."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.baselines import (
    Context,
    HalvedWindow,
    LastMessages,
    Prompt,
    Replay,
    RollingSummary,
    Step,
    step_of,
)
from benchmarks.cache.calls import Call, KeepingUp, calls_of_agent, calls_of_dialogue
from benchmarks.cache.checks import CheckpointCheck, PrefixCheck
from benchmarks.cache.prefixes import Account
from benchmarks.database import ENCODING, Database, Report
from benchmarks.traces import Trace
from durable_context import Branch, Budget, PreparedContext
from durable_context.tokens import TokenCounter, token_counter
from durable_context.transcripts import Transcript

OURS = "durable context"
REPLAY = "full replay"
OTHERS: Mapping[str, Callable[[int, TokenCounter, Step], Context]] = {
    "sliding window": lambda budget, _, said: LastMessages(budget, said),
    "window cut to half": lambda budget, _, said: HalvedWindow(budget, said),
    "rolling summary": lambda budget, counter, said: RollingSummary(budget, counter, said),
}
COMPANION = (
    "You are the second person of a long conversation between friends. Answer in their tone, keep"
    " to what was said, and ask when you do not remember."
)
"""Instructions where the data has none."""


@dataclass
class Cached:
    """What was measured on one corpus."""

    corpus: str
    branches: int = 0
    calls: int = 0
    seconds: float = 0.0
    accounts: dict[tuple[str, int | None], Account] = field(
        default_factory=dict[tuple[str, int | None], Account]
    )
    prefixes: dict[int, PrefixCheck] = field(default_factory=dict[int, PrefixCheck])
    checkpoints: CheckpointCheck = field(default_factory=CheckpointCheck)

    def account(self, name: str, budget: int | None) -> Account:
        return self.accounts.setdefault((name, budget), Account(name, budget))


async def measure_agents(
    database: Database, corpus: str, traces: Sequence[Trace], budgets: Sequence[int], report: Report
) -> Cached:
    cached = Cached(corpus)
    for trace in traces:
        branch = await database.client(fast=True).open_branch(trace.name)
        keep_up = KeepingUp(database, branch)
        instructions = next((task.system for task in trace.tasks if task.system), COMPANION)
        booking = Booking(branch, instructions, budgets, cached)
        await booking.all(calls_of_agent(branch, trace, keep_up))
        report(f"{trace.name}: {cached.calls:,} calls")
    return cached


async def measure_dialogues(
    database: Database,
    corpus: str,
    conversations: Sequence[Transcript],
    budgets: Sequence[int],
    report: Report,
) -> Cached:
    cached = Cached(corpus)
    for conversation in conversations:
        branch = await database.client(fast=True).open_branch(conversation.name)
        keep_up = KeepingUp(database, branch)
        booking = Booking(branch, conversation.system or COMPANION, budgets, cached)
        await booking.all(calls_of_dialogue(branch, conversation, keep_up))
        report(f"{conversation.name}: {cached.calls:,} calls")
    return cached


class Booking:
    """The calls of one branch."""

    def __init__(
        self, branch: Branch, instructions: str, budgets: Sequence[int], into: Cached
    ) -> None:
        self._branch = branch
        self._into = into
        self._counter = token_counter(ENCODING)
        self._budgets = [Budget(max_tokens=n, instructions=instructions) for n in budgets]
        said = step_of([{"role": "system", "content": instructions}], self._counter)
        self._others: dict[tuple[str, int | None], Context] = {
            (name, budget): make(budget, self._counter, said)
            for name, make in OTHERS.items()
            for budget in budgets
        }
        self._others[REPLAY, None] = Replay(said)
        self._before: dict[int, PreparedContext | None] = dict.fromkeys(budgets)

    async def all(self, calls: AsyncIterator[Call]) -> None:
        async for call in calls:
            self._into.calls += 1
            await self._ours(call)
            await self._theirs(call)
        self._into.branches += 1
        self._into.checkpoints.add(await self._branch.checkpoints())

    async def _ours(self, call: Call) -> None:
        for budget in self._budgets:
            found = await self._branch.prepare(call.user, budget=budget, pending=call.pending)
            prepared = found if isinstance(found, PreparedContext) else None
            prompt = Prompt(prepared.messages, prepared.token_count) if prepared else None
            self._book(OURS, budget.max_tokens, prompt)
            before = self._before[budget.max_tokens]
            if prepared and before and not call.compacted:
                check = self._into.prefixes.setdefault(budget.max_tokens, PrefixCheck())
                check.add(before, prepared, self._counter)
            self._before[budget.max_tokens] = prepared

    async def _theirs(self, call: Call) -> None:
        steps = [step_of(messages, self._counter) for messages in call.steps]
        for (name, budget), context in self._others.items():
            for step in steps:
                await context.add(step)
            self._book(name, budget, context.prompt())

    def _book(self, name: str, budget: int | None, prompt: Prompt | None) -> None:
        account = self._into.account(name, budget)
        account.add(str(self._branch.branch_uuid), prompt, self._counter)
