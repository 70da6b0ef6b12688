"""What reading a file of conversations gives: turns of OpenAI chat-format messages, and the place
of whatever is wrong with them.
"""

from dataclasses import dataclass
from typing import Any, TypeGuard

from pydantic import AwareDatetime

from durable_context.errors import DurableContextError
from durable_context.models import Outcome, Value

JsonObject = dict[str, Any]


class TranscriptError(DurableContextError):
    """The file does not hold conversations that can be replayed."""


class TranscriptTurn(Value):
    """One turn as `record_turn` takes it. `system` is what the instructions were when it began."""

    messages: tuple[JsonObject, ...]
    outcome: Outcome = "complete"
    continues: bool = False
    occurred_at: AwareDatetime | None = None
    system: str | None = None

    @property
    def user_messages(self) -> tuple[JsonObject, ...]:
        """The user messages it opens with: none if the assistant spoke first."""
        opening: list[JsonObject] = []
        for message in self.messages:
            if message["role"] != "user":
                break
            opening.append(message)
        return tuple(opening)


class Transcript(Value):
    """One conversation. `name` is its id in the file, else made of the file's name and its place in
    it.
    """

    name: str
    system: str | None = None
    tools: tuple[JsonObject, ...] | None = None
    turns: tuple[TranscriptTurn, ...]


@dataclass(frozen=True)
class Located:
    """A JSON value and where in the file it stands."""

    value: Any
    place: str

    def error(self, problem: str) -> TranscriptError:
        return TranscriptError(f"{self.place}: {problem}")


def is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
