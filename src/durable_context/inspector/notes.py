"""What came of a change, told by the page that its form goes back to.

Kept in this process: the address names a note and holds none of its text, so that no link made
elsewhere puts words into our pages.
"""

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, Final, Literal, NamedTuple

from durable_context.errors import DurableContextError
from durable_context.inspector.sealing import log_failure

KEPT: Final = 200
PROMPT_SECONDS: Final = 2.0
"""How long a form waits for what it asked for; then its page tells when it is done."""

NoteState = Literal["done", "running", "failed"]


class Note(NamedTuple):
    note_id: str
    text: str
    state: NoteState


class Notes:
    """The newest notes, and what is under way."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}
        self._running: set[asyncio.Task[Note]] = set()

    def get(self, note_id: str) -> Note | None:
        return self._notes.get(note_id)

    async def of(self, work: Coroutine[Any, Any, str], doing: str) -> Note:
        """Do `work`, which says what it did. What takes long goes on, and its note says so."""
        note_id = secrets.token_urlsafe(12)
        begun = self._keep(Note(note_id, doing, "running"))
        task = asyncio.create_task(self._told(note_id, work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await asyncio.wait([task], timeout=PROMPT_SECONDS)
        return task.result() if task.done() and not task.cancelled() else begun

    async def close(self) -> None:
        """Wait for nothing any more: what Temporal was asked for goes on there."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _told(self, note_id: str, work: Coroutine[Any, Any, str]) -> Note:
        try:
            return self._keep(Note(note_id, await work, "done"))
        except DurableContextError as error:
            return self._keep(Note(note_id, str(error), "failed"))
        except Exception as error:
            log_failure("A change", error)
            return self._keep(Note(note_id, f"{type(error).__name__}; see the log", "failed"))

    def _keep(self, note: Note) -> Note:
        """The newest of those that ended, and all that run."""
        self._notes.pop(note.note_id, None)
        self._notes[note.note_id] = note
        ended = [note_id for note_id, kept in self._notes.items() if kept.state != "running"]
        for note_id in ended[:-KEPT]:
            del self._notes[note_id]
        return note
