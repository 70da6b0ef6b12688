"""What prompts are without this system: replay, a sliding window, masked tool results, a rolling
summary. Each holds one branch for one budget, is told of every step, and gives the next prompt.

Their tokens are counted as ours are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from durable_context.models import Summary, Turn
from durable_context.summarizers import SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.tokens import REPLY_OVERHEAD, TokenCounter
from durable_context.turns.messages import parse_message

JsonObject = dict[str, Any]

PLACEHOLDER = "[Earlier tool result left out.]"
WHOLE_SHARE = 2 / 3
"""Of the budget, for steps whose results masking leaves whole."""
SUMMARY_SHARE = 1 / 4
"""Of the budget, for a rolling summary."""
_FOLDED_TO = 1 / 2
"""Share of the room beside a rolling summary that is left full when older steps are folded."""
_SUMMARY_HEAD = "Summary of the conversation so far:\n"
_NO_ID = UUID(int=0)
_NO_TIME = datetime(2024, 1, 1, tzinfo=UTC)


class Step(NamedTuple):
    """What is never split: a message, or a message with tool calls and all its results.

    `masked_tokens` is its size with placeholders for results.
    """

    messages: tuple[JsonObject, ...]
    tokens: int
    masked_tokens: int

    def masked(self) -> "Step":
        return Step(tuple(map(_masked, self.messages)), self.masked_tokens, self.masked_tokens)


class Prompt(NamedTuple):
    messages: tuple[JsonObject, ...]
    tokens: int


class Context(Protocol):
    """One branch under one budget."""

    async def add(self, step: Step) -> None: ...

    def prompt(self) -> Prompt: ...


def step_of(messages: Sequence[JsonObject], counter: TokenCounter) -> Step:
    return Step(
        tuple(messages),
        sum(tokens_of(message, counter) for message in messages),
        sum(tokens_of(_masked(message), counter) for message in messages),
    )


def tokens_of(message: JsonObject, counter: TokenCounter) -> int:
    if message["role"] == "system":
        message = message | {"role": "user"}
    return counter.count_message(parse_message(message, 0))


@dataclass
class Replay:
    """Everything, whatever it takes."""

    instructions: Step | None = None
    _steps: list[Step] = field(default_factory=list[Step])

    async def add(self, step: Step) -> None:
        self._steps.append(step)

    def prompt(self) -> Prompt:
        return _prompt(self.instructions, self._steps)


@dataclass
class LastMessages:
    """The newest steps that fit: the first that does not fit ends it."""

    budget: int
    instructions: Step | None = None
    _steps: list[Step] = field(default_factory=list[Step])

    async def add(self, step: Step) -> None:
        self._steps.append(step)

    def prompt(self) -> Prompt:
        kept: list[Step] = []
        left = _room(self.budget, self.instructions)
        for step in reversed(self._steps):
            left -= step.tokens
            if left < 0:
                break
            kept.insert(0, step)
        return _prompt(self.instructions, kept)


@dataclass
class MaskedResults:
    """The newest steps in their share of the budget, and as many before them as fit with
    placeholders for their tool results.
    """

    budget: int
    instructions: Step | None = None
    share: float = WHOLE_SHARE
    _steps: list[Step] = field(default_factory=list[Step])

    async def add(self, step: Step) -> None:
        self._steps.append(step)

    def prompt(self) -> Prompt:
        kept: list[Step] = []
        room, used, masking = _room(self.budget, self.instructions), 0, False
        for step in reversed(self._steps):
            limit = self.share * room if kept else room
            masking = masking or used + step.tokens > limit
            shown = step.masked() if masking else step
            used += shown.tokens
            if used > room:
                break
            kept.insert(0, shown)
        return _prompt(self.instructions, kept)


@dataclass
class HalvedWindow:
    """The newest steps; when they do not fit, the oldest go until half of the room is free, so that
    most prompts begin as the one before.
    """

    budget: int
    instructions: Step | None = None
    _steps: list[Step] = field(default_factory=list[Step])

    async def add(self, step: Step) -> None:
        self._steps.append(step)
        room = _room(self.budget, self.instructions)
        if _size(self._steps) > room:
            while len(self._steps) > 1 and _size(self._steps) > room / 2:
                del self._steps[0]

    def prompt(self) -> Prompt:
        fits = _size(self._steps) <= _room(self.budget, self.instructions)
        return _prompt(self.instructions, self._steps if fits else ())


class RollingSummary:
    """A summary of all that is older, made of the summary before and what left the window since, by
    our own extractive summarizer; then the newest steps.
    """

    def __init__(
        self,
        budget: int,
        counter: TokenCounter,
        instructions: Step | None = None,
        *,
        share: float = SUMMARY_SHARE,
    ) -> None:
        self._instructions = instructions
        self._counter = counter
        self._summarizer = ExtractiveSummarizer()
        room = _room(budget, instructions)
        self._summary_tokens = max(50, int(share * room))
        self._room = room - self._summary_tokens
        self._steps: list[Step] = []
        self._summary: Summary | None = None
        self._summary_step: Step | None = None
        self._folded = 0

    async def add(self, step: Step) -> None:
        self._steps.append(step)
        if _size(self._steps) <= self._room:
            return
        old: list[Step] = []
        while _size(self._steps) > (_FOLDED_TO if len(self._steps) > 1 else 1) * self._room:
            old.append(self._steps.pop(0))
        await self._fold(old)

    def prompt(self) -> Prompt:
        summary = [self._summary_step] if self._summary_step else []
        return _prompt(self._instructions, [*summary, *self._steps])

    async def _fold(self, steps: Sequence[Step]) -> None:
        first = self._folded + 1
        self._folded += len(steps)
        turns = tuple(_turn(number, step) for number, step in enumerate(steps, start=first))
        new = await self._summarized(first, turns=turns)
        if self._summary is not None:
            new = await self._summarized(1, nodes=(self._summary, new))
        self._summary = new
        text = f"{_SUMMARY_HEAD}{new.text}"
        self._summary_step = step_of([{"role": "user", "content": text}], self._counter)

    async def _summarized(
        self, first: int, *, turns: tuple[Turn, ...] = (), nodes: tuple[Summary, ...] = ()
    ) -> Summary:
        overhead = self._counter.count(_SUMMARY_HEAD) + 8
        draft = await self._summarizer.summarize(
            SummaryRequest(
                level=1 if nodes else 0,
                from_turn=first,
                to_turn=self._folded,
                turns=turns,
                nodes=nodes,
                encoding=self._counter.encoding,
                max_tokens=self._summary_tokens - overhead,
            )
        )
        return Summary(
            summary_id=_NO_ID,
            level=1 if nodes else 0,
            from_turn=first,
            to_turn=self._folded,
            headline=draft.headline,
            text=draft.text,
            token_count=self._counter.count(draft.text),
            recipe=self._summarizer.recipe,
            made_by=draft.made_by,
            revision=1,
            degraded=False,
            input_tokens=0,
            covered_tokens=0,
            created_at=_NO_TIME,
        )


def _turn(number: int, step: Step) -> Turn:
    messages = tuple(parse_message(message, at) for at, message in enumerate(step.messages))
    return Turn(
        turn_no=number,
        turn_key=str(number),
        messages=messages,
        token_count=step.tokens,
        outcome="complete",
        continues=False,
        occurred_at=_NO_TIME,
        recorded_at=_NO_TIME,
        digest="",
    )


def _masked(message: JsonObject) -> JsonObject:
    return message | {"content": PLACEHOLDER} if message["role"] == "tool" else message


def _size(steps: Sequence[Step]) -> int:
    return sum(step.tokens for step in steps)


def _room(budget: int, instructions: Step | None) -> int:
    return budget - REPLY_OVERHEAD - (instructions.tokens if instructions else 0)


def _prompt(instructions: Step | None, steps: Iterable[Step]) -> Prompt:
    shown = [*([instructions] if instructions else []), *steps]
    messages = tuple(message for step in shown for message in step.messages)
    return Prompt(messages, REPLY_OVERHEAD + sum(step.tokens for step in shown))
