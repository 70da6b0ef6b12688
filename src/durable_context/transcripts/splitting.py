"""Where turns begin and end: a user message begins one, tool exchanges stay whole, long runs may be
cut into stretches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from durable_context.models import Outcome
from durable_context.transcripts.model import JsonObject, Located, TranscriptTurn, is_list
from durable_context.transcripts.openai import SYSTEM_ROLES


@dataclass(frozen=True)
class TimedMessage:
    found: Located
    occurred_at: datetime | None = None

    @property
    def message(self) -> JsonObject:
        return self.found.value

    @property
    def role(self) -> str:
        return self.message["role"]


@dataclass
class _OpenTurn:
    system: str | None
    messages: list[TimedMessage] = field(default_factory=list[TimedMessage])
    waiting: set[str] = field(default_factory=set[str])
    interrupted: bool = False

    @property
    def spoken(self) -> bool:
        """Someone other than the user has spoken: the next user message begins another turn."""
        return bool(self.messages) and self.messages[-1].role != "user"

    def add(self, message: TimedMessage) -> None:
        if message.role == "tool":
            self._answer(message)
        else:
            self._close_exchange()
        self.waiting.update(_call_ids(message.message))
        self.messages.append(message)

    def _close_exchange(self) -> None:
        self.interrupted = self.interrupted or bool(self.waiting)
        self.waiting.clear()

    def _answer(self, message: TimedMessage) -> None:
        call_id = message.message["tool_call_id"]
        if call_id not in self.waiting:
            raise message.found.error(
                f"the result of tool call {call_id!r}; a result follows the message with its call, "
                f"and the calls that wait for one here are {sorted(self.waiting)!r}"
            )
        self.waiting.remove(call_id)

    def closed(self) -> TranscriptTurn:
        self._close_exchange()
        return TranscriptTurn(
            messages=tuple(message.message for message in self.messages),
            outcome="interrupted" if self.interrupted else "complete",
            occurred_at=next((m.occurred_at for m in self.messages if m.occurred_at), None),
            system=self.system,
        )


def split_turns(messages: Iterable[TimedMessage], system: str | None) -> tuple[TranscriptTurn, ...]:
    """A later system message adds to the instructions of the turns after it."""
    turns: list[TranscriptTurn] = []
    open_turn = _OpenTurn(system)
    for message in messages:
        if message.role in SYSTEM_ROLES:
            system = "\n\n".join(filter(None, (system, _system_text(message))))
            if not open_turn.messages:
                open_turn.system = system
            continue
        if message.role == "user" and open_turn.spoken:
            turns.append(open_turn.closed())
            open_turn = _OpenTurn(system)
        open_turn.add(message)
    return (*turns, open_turn.closed()) if open_turn.messages else tuple(turns)


def stretches(turn: TranscriptTurn, exchanges: int | None) -> tuple[TranscriptTurn, ...]:
    """The turn as an agent records it that does so after every `exchanges` tool exchanges. None:
    whole.
    """
    if exchanges is None:
        return (turn,)
    if exchanges < 1:
        raise ValueError(f"exchanges is {exchanges!r}; a stretch has at least one")
    parts = list(_parts(turn.messages, exchanges))
    return tuple(
        turn.model_copy(
            update={
                "messages": part,
                "continues": number < len(parts),
                "outcome": _outcome(part, turn.outcome),
            }
        )
        for number, part in enumerate(parts, start=1)
    )


def _parts(messages: Iterable[JsonObject], exchanges: int) -> Iterator[tuple[JsonObject, ...]]:
    part: list[JsonObject] = []
    count = 0
    for message in messages:
        if count == exchanges and message["role"] != "tool":
            yield tuple(part)
            part, count = [], 0
        part.append(message)
        count += bool(message.get("tool_calls"))
    yield tuple(part)


def _outcome(part: tuple[JsonObject, ...], outcome: Outcome) -> Outcome:
    called = {call_id for message in part for call_id in _call_ids(message)}
    answered = {message["tool_call_id"] for message in part if message["role"] == "tool"}
    return outcome if called - answered else "complete"


def _call_ids(message: JsonObject) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or ()]


def _system_text(message: TimedMessage) -> str:
    content = message.message.get("content")
    if is_list(content):
        return "\n\n".join(str(part.get("text", "")) for part in content)
    return content or ""
