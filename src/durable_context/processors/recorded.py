"""Contents that `prepare` offloads are in the turns themselves: a handle follows from its content,
so that they are found again without having been stored anew.
"""

import asyncio
import hashlib
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from durable_context.artifacts.contents import decoded, encoded
from durable_context.artifacts.reading import count_lines
from durable_context.errors import ArtifactDamaged, ArtifactStoreUnavailable
from durable_context.models import Artifact, BranchState, Message, Turn
from durable_context.processors.markers import handle_of
from durable_context.text import clean, message_text
from durable_context.turns.sendable import sendable

if TYPE_CHECKING:
    from durable_context.branch import Branch

TURNS: Final = 64
"""Newest turns that are looked through: prompts show fewer as they were recorded."""


class _Wanted(NamedTuple):
    """A handle, and the ids of the branches it may be of."""

    handle: str
    branches: Collection[str]

    def is_of(self, text: str) -> bool:
        return any(handle_of(text, branch) == self.handle for branch in self.branches)


class RecordedText(NamedTuple):
    """A text of a message, and the turn it stands in."""

    turn_no: int
    text: str

    def as_artifact(self, handle: str) -> Artifact:
        """It is shown like one."""
        content = encoded(self.text)
        return Artifact(
            handle=handle,
            name=None,
            version=None,
            media_type="text/plain",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            token_count=0,
            line_count=count_lines(self.text),
            width=None,
            height=None,
            turn_no=self.turn_no,
            source="offloaded",
            headline=None,
            summary=None,
            created_at=datetime.now(UTC),
        )


async def recorded_text(branch: "Branch", handle: str) -> RecordedText | None:
    """The text of a message that prompts of the branch, or of one it was forked from, show under
    this handle.

    What cannot be read is passed over: only where nothing else has the handle, ArtifactDamaged or
    ArtifactStoreUnavailable is raised. Raises DatabaseUnavailable.
    """
    newest = await branch.newest_turns(TURNS)
    found = await _inline(newest, _Wanted(handle, [str(branch.branch_uuid)]))
    if found is not None:
        return found
    state = await branch.inspect()
    wanted = _Wanted(handle, [str(each.branch_uuid) for each in state.lineage])
    newest = [*await _run_start(branch, state), *newest]
    found = await _inline(newest, wanted)
    return await _kept(branch, newest, wanted) if found is None else found


async def _run_start(branch: "Branch", state: BranchState) -> Sequence[Turn]:
    """The turn with the task of the open run, which prompts show however long ago it was."""
    begun = state.open_run_turn
    return () if begun is None else await branch.turns(begun, begun)


async def _inline(turns: Sequence[Turn], wanted: _Wanted) -> RecordedText | None:
    def search() -> RecordedText | None:
        shown = (
            RecordedText(turn.turn_no, text)
            for turn in reversed(turns)
            for message in turn.messages
            for text in _texts(message)
        )
        return next((one for one in shown if wanted.is_of(one.text)), None)

    return await asyncio.to_thread(search)


def _texts(message: Message) -> Iterator[str]:
    """What prompts show of it: each text, and all together where a view takes their place."""
    said = sendable(message)
    yield message_text(said)
    for part in said.content if isinstance(said.content, tuple) else ():
        if part["type"] == "text":
            yield part["text"]


async def _kept(branch: "Branch", turns: Sequence[Turn], wanted: _Wanted) -> RecordedText | None:
    """The same in artifacts that stand for texts."""
    unread: Exception | None = None
    for turn in reversed(turns):
        for artifact in (found for message in turn.messages for found in _artifacts(message)):
            try:
                content = (await branch.load_artifact(artifact)).content
            except (ArtifactDamaged, ArtifactStoreUnavailable) as error:
                unread = unread or error
                continue
            text = clean(content if isinstance(content, str) else decoded(content))
            if wanted.is_of(text):
                return RecordedText(turn.turn_no, text)
    if unread is not None:
        raise unread
    return None


def _artifacts(message: Message) -> Iterator[str]:
    if message.artifact is not None:
        yield message.artifact
    for part in message.content if isinstance(message.content, tuple) else ():
        if part["type"] == "text" and isinstance(part.get("artifact"), str):
            yield part["artifact"]
