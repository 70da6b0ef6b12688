"""A tree of branches as plain lists: what the real one must look like from outside."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, zip_longest
from typing import Any

from durable_context import Artifact, Message, Turn
from durable_context.turns.pairing import NO_RESULT

WORD = re.compile(r"kw\d+x")
"""One of these is in each turn and in each named artifact, and nowhere else."""


def words() -> Iterator[str]:
    return (f"kw{number:05d}x" for number in count(1))


@dataclass(frozen=True)
class ToldTurn:
    """A turn as it was recorded, and as recording returned it."""

    word: str
    messages: list[dict[str, Any]]
    stored: Turn
    large: bool
    """Its results are beyond what a raw turn shows whole."""

    def shown(self) -> list[dict[str, Any]]:
        """The messages of a raw turn whose binary parts are loaded."""
        pairs = zip_longest(self.messages, self.stored.messages)
        return [_shown(given, stored, self.large) for given, stored in pairs]


@dataclass(frozen=True)
class ToldArtifact:
    artifact: Artifact
    content: str | bytes
    word: str


@dataclass
class ToldBranch:
    """All that a branch is to see, inherited or not."""

    name: str
    turns: list[ToldTurn] = field(default_factory=list)
    artifacts: list[ToldArtifact] = field(default_factory=list)

    def fork(self, name: str, at_turn: int) -> "ToldBranch":
        seen = [told for told in self.artifacts if told.artifact.turn_no <= at_turn]
        return ToldBranch(name, self.turns[:at_turn], seen)

    def listed(self) -> list[str]:
        """Handles of what turns brought and of the newest version of each name, by turn."""
        newest = {t.artifact.name: t.artifact for t in self.artifacts if t.artifact.version}
        listed = [
            told.artifact
            for told in self.artifacts
            if told.artifact.version is None or newest[told.artifact.name] is told.artifact
        ]
        return [one.handle for one in sorted(listed, key=lambda one: one.turn_no)]

    def words(self) -> set[str]:
        return {told.word for told in (*self.turns, *self.artifacts)}

    def open_run(self) -> int | None:
        run: int | None = None
        for turn_no, told in enumerate(self.turns, 1):
            if not told.stored.continues:
                run = None
            elif told.messages[0]["role"] == "user" or run is None:
                run = turn_no
        return run

    def raw(self, turns: list[int]) -> list[dict[str, Any]]:
        """What a prompt says that shows these turns raw, the task of an open run included."""
        said = [message for turn_no in turns for message in self.turns[turn_no - 1].shown()]
        run = self.open_run()
        if run is None or run in turns:
            return said
        task = [m for m in self.turns[run - 1].shown() if m["role"] == "user"]
        return [*task, *said]


def _shown(given: dict[str, Any] | None, stored: Message, large: bool) -> dict[str, Any]:
    if given is None:
        assert stored.synthetic
        return {"role": "tool", "content": NO_RESULT, "tool_call_id": stored.tool_call_id}
    if large and given["role"] == "tool":
        assert stored.artifact and str(stored.content).startswith(f"[artifact {stored.artifact}: ")
        return given | {"content": stored.content}
    return given
