"""What each context tool does: reads of the branch, and what is said of them."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from durable_context.artifacts.contents import IN_THREAD
from durable_context.errors import ArtifactNotFound, InvalidArgument
from durable_context.models import Artifact
from durable_context.processors.markers import is_handle
from durable_context.processors.recorded import recorded_text
from durable_context.tools.answering.artifact_answers import (
    Part,
    artifact_lines,
    artifact_list,
    artifact_matches,
    not_text,
)
from durable_context.tools.answering.bound import Bound
from durable_context.tools.answering.search_answers import search_hits
from durable_context.tools.answering.turn_answers import TurnLine, turn_lines, turn_page

if TYPE_CHECKING:
    from durable_context.branch import Branch

_TURNS_PER_READ: Final = 20


class Answers:
    """The answers for one branch, each by its tool's name. Raises ArtifactNotFound and
    InvalidArgument where the model is wrong.
    """

    def __init__(self, branch: "Branch", bound: Bound) -> None:
        self._branch = branch
        self._bound = bound

    async def reload_artifact(
        self,
        handle: str,
        start: int = 1,
        length: int | None = None,
        grep: str | None = None,
        offset: int = 0,
    ) -> str:
        artifact, content = await self._content(handle)
        part = Part(start, length, offset)
        if isinstance(content, bytes):
            return not_text(artifact, self._bound)

        def answer() -> str:
            if grep is None:
                return artifact_lines(artifact, content, part, self._bound)
            return artifact_matches(artifact, content, grep, part, self._bound)

        return await asyncio.to_thread(answer) if len(content) > IN_THREAD else answer()

    async def _content(self, handle: str) -> tuple[Artifact, str | bytes]:
        """Also of a message that stands offloaded in a prompt, and whole in its turn."""
        try:
            loaded = await self._branch.load_artifact(handle)
            return loaded.artifact, loaded.content
        except ArtifactNotFound:
            found = await recorded_text(self._branch, handle) if is_handle(handle) else None
            if found is None:
                raise
            return found.as_artifact(handle), found.text

    async def list_artifacts(self, name: str | None = None, start: int = 1) -> str:
        artifacts = await self._branch.artifacts()
        if not artifacts:
            return "There are no artifacts in this conversation yet."
        if name is not None:
            artifacts = await self._named(artifacts, name)
        return artifact_list(artifacts[::-1], start, self._bound)

    async def _named(self, artifacts: Sequence[Artifact], name: str) -> tuple[Artifact, ...]:
        """Those of this name, with older versions; else those whose name holds it."""
        exact = tuple(artifact for artifact in artifacts if artifact.name == name)
        if any(artifact.source == "put" for artifact in exact):
            brought = (artifact for artifact in exact if artifact.source != "put")
            return (*brought, *await self._branch.artifact_history(name))
        wanted = name.casefold()
        alike = tuple(a for a in artifacts if a.name and wanted in a.name.casefold())
        if not (exact or alike):
            names = sorted({artifact.name for artifact in artifacts if artifact.name})
            raise ArtifactNotFound(
                f"no artifact is named {name!r:.80}; names are {', '.join(names) or 'not given'}"
            )
        return exact or alike

    async def search_history(self, query: str, limit: int = 5) -> str:
        hits = await self._branch.search(query, limit=limit)
        return search_hits(query, hits, self._bound)

    async def expand_summary(
        self,
        from_turn: int | None = None,
        to_turn: int | None = None,
        summary_id: str | None = None,
        start: int = 1,
    ) -> str:
        first, last = await self._range(from_turn, to_turn, summary_id)
        lines = await self._lines(first, last, start)
        if lines:
            return turn_page(lines, last, self._bound)
        state = await self._branch.inspect()
        if first > state.head_turn:
            return f"There is no turn {first}; the newest is turn {state.head_turn}."
        return f"There is no line {start} in turn {first}."

    async def _range(
        self, from_turn: int | None, to_turn: int | None, summary_id: str | None
    ) -> tuple[int, int]:
        if summary_id is None and from_turn is not None:
            last = from_turn if to_turn is None else to_turn
            if last >= from_turn:
                return from_turn, last
            raise InvalidArgument(f"to_turn={last} is before from_turn={from_turn}")
        if summary_id is None or from_turn is not None or to_turn is not None:
            raise InvalidArgument("pass from_turn, with or without to_turn, or summary_id alone")
        for summary in await self._branch.summaries():
            if str(summary.summary_id) == summary_id.strip().lower():
                return summary.from_turn, summary.to_turn
        raise InvalidArgument(f"there is no summary {summary_id!r:.80}; turn numbers do as well")

    async def _lines(self, first: int, last: int, start: int) -> list[TurnLine]:
        """More lines than an answer holds, or all of them."""
        lines: list[TurnLine] = []
        size = 0
        for read_from in range(first, last + 1, _TURNS_PER_READ):
            read_to = min(read_from + _TURNS_PER_READ - 1, last)
            turns = await self._branch.turns(read_from, read_to)
            for line in (line for turn in turns for line in turn_lines(turn, self._bound)):
                if line.turn_no > first or line.line_no >= start:
                    lines.append(line)
                    size += len(line.text) + 1
                if size > self._bound.characters:
                    return lines
            if len(turns) < _TURNS_PER_READ:
                break
        return lines
