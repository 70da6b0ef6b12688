"""The calls of a model in the course of a recorded conversation: what each is made from, ours and
the others', and how many compactions came before it.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from benchmarks.database import Database, compact, silence
from benchmarks.playing import Messages, moments
from benchmarks.traces import Trace
from durable_context import Branch
from durable_context.transcripts import Transcript

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """`prepare(user, pending=pending)` is about to be called. `steps` are new since the last call;
    `compacted` says whether a compaction was done since.
    """

    user: JsonObject | None
    pending: Messages
    steps: tuple[Messages, ...]
    compacted: bool


class KeepingUp:
    """Compacts what is due after each turn, and remembers whether anything was."""

    def __init__(self, database: Database, branch: Branch) -> None:
        self._database = database
        self._branch = branch
        self._passes = 0

    async def __call__(self) -> None:
        self._passes += await compact(self._database.not_waiting, self._branch, silence)

    def since_last(self) -> bool:
        compacted, self._passes = self._passes > 0, 0
        return compacted


async def calls_of_agent(branch: Branch, trace: Trace, keep_up: KeepingUp) -> AsyncIterator[Call]:
    async for moment in moments(branch, trace, keep_up):
        yield Call(None, moment.pending, moment.steps, keep_up.since_last())


async def calls_of_dialogue(
    branch: Branch, conversation: Transcript, keep_up: KeepingUp
) -> AsyncIterator[Call]:
    """A call for every turn in which the assistant speaks; its user messages are one message."""
    steps: list[Messages] = []
    for turn in conversation.turns:
        said = turn.messages[len(turn.user_messages) :]
        user = turn.user_messages[0] if turn.user_messages else None
        if user is not None:
            steps.append((user,))
        if said:
            yield Call(user, (), tuple(steps), keep_up.since_last())
            steps = [(message,) for message in said]
        await branch.record_turn(turn.messages, occurred_at=turn.occurred_at)
        await keep_up()
