"""Plays a recorded agent into a branch as the README shows it, compaction kept up after every
recorded turn, and stops before each call of the model.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.traces import Task, Trace
from durable_context import Branch

JsonObject = dict[str, Any]
Messages = tuple[JsonObject, ...]
KeepUp = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Moment:
    """The model is about to be called, and to say `said`. `pending` is what is not recorded yet;
    `position` counts the messages of the task that came before, and `turns` says where those are
    recorded, so far as they are. `steps` are new since the moment before: single messages, and
    calls with all their results.
    """

    task: Task
    position: int
    pending: Messages
    turns: tuple[int, ...]
    steps: tuple[Messages, ...]

    @property
    def said(self) -> JsonObject:
        return self.task.messages[self.position]

    @property
    def before(self) -> Messages:
        """Earlier messages of the task."""
        return self.task.messages[: self.position]


async def moments(branch: Branch, trace: Trace, keep_up: KeepUp) -> AsyncIterator[Moment]:
    """A user's message is recorded before anything is done about it, with continues=True; a tool
    exchange is pending until the model has read it, and then a stretch; what ends the run has no
    continues.
    """
    steps: list[Messages] = []
    turns: list[int] = []

    async def record(messages: Messages, *, continues: bool) -> None:
        turn = await branch.record_turn(messages, continues=continues)
        turns.extend(turn.turn_no for _ in messages)
        await keep_up()

    for task in trace.tasks:
        exchange: list[JsonObject] = []
        turns.clear()
        for position, message in enumerate(task.messages):
            if message["role"] == "tool":
                exchange.append(message)
                continue
            pending, exchange = tuple(exchange), []
            if pending:
                steps.append(pending)
            if message["role"] == "assistant":
                yield Moment(task, position, pending, tuple(turns), tuple(steps))
                steps.clear()
            if pending:
                await record(pending, continues=message["role"] == "assistant")
            if message.get("tool_calls"):
                exchange = [message]
            else:
                steps.append((message,))
                await record((message,), continues=message["role"] == "user")
        if exchange:
            steps.append(tuple(exchange))
            await record(tuple(exchange), continues=False)
