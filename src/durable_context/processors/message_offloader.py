"""Replaces oversized messages by markers that `reload_offloaded` finds their content by."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from durable_context.artifacts.kept_once import ArtifactHolder
from durable_context.processors.changing import with_field
from durable_context.processors.history import (
    called,
    field,
    in_flight,
    read_history,
    rewrite_history,
    role_of,
    stays,
    with_content,
)
from durable_context.processors.markers import marker
from durable_context.processors.offloaded import (
    OFFLOADED_MESSAGES,
    RELOAD_TOOL,
    OffloadedContents,
    add_entries,
    check_holder,
    keep,
    known_contents,
    note_artifacts,
)
from durable_context.processors.pipeline import PRE_LLM_CALL, ContextProcessor
from durable_context.processors.round_window import check_whole
from durable_context.processors.tool_result_offloader import plain_text

if TYPE_CHECKING:
    from durable_context.processors.context import Context

_ROLES: Final = ("user", "assistant", "tool")


class MessageOffloader(ContextProcessor):
    """Offloads the content of user, assistant and tool messages of more than `max_message_size`
    characters of text.

    `[[OFFLOADED: handle=off_...]]` takes the place of the content, and all else of the message
    stays. Of content parts the largest texts go, until what is left is within the limit. Results of
    `reload_offloaded` stay until the model has answered them. What `Branch.prepare` had to cut to a
    view is offloaded as that view.

    Writes `state["offloaded_messages"]`, contents by handle. With `artifacts`, a branch, contents
    are artifacts named by their handles before any marker points at them, and
    `state["offloaded_artifacts"]` holds the artifacts' handles instead. Raises ProcessorError, and
    as `Branch.put_artifact` does; nothing has changed then.
    """

    def __init__(
        self,
        *,
        max_message_size: int = 10_000,
        name: str = "message_offloader",
        artifacts: ArtifactHolder | None = None,
    ) -> None:
        super().__init__(PRE_LLM_CALL, name=name)
        check_whole("max_message_size", max_message_size)
        check_holder(artifacts)
        self._max_message_size = max_message_size
        self._artifacts = artifacts
        self.pure = artifacts is None

    @property
    def max_message_size(self) -> int:
        return self._max_message_size

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        before = read_history(ctx)
        contents = _contents(before)
        run = _Run(ctx, self._max_message_size, self._artifacts)
        asked_for = _reloaded(before)
        after = [
            message if position in asked_for else await run.message(message)
            for position, message in enumerate(before)
        ]
        is_same = all(a is b for a, b in zip(contents, _contents(before), strict=True))
        if run.changed and is_same and rewrite_history(ctx, before, after):
            run.save()


class _Run:
    """One pass over a history. The state stays as it is until `save`."""

    def __init__(self, ctx: "Context", limit: int, holder: ArtifactHolder | None) -> None:
        self._ctx = ctx
        self._limit = limit
        self._holder = holder
        self._contents = OffloadedContents(ctx, artifacts=holder is not None, holder=holder)
        self._known = known_contents(ctx)
        self._texts: dict[str, str] = {}
        self._artifacts: dict[str, str] = {}

    @property
    def changed(self) -> bool:
        return bool(self._texts or self._artifacts)

    async def message(self, message: Any) -> Any:
        """The message, or a new one with markers."""
        content = field(message, "content")
        if stays(message) or role_of(message) not in _ROLES or content is None:
            return message
        if isinstance(content, list | tuple):
            parts = cast("Sequence[Any]", content)
            changed = await self._parts(parts)
            whole = tuple(changed) if isinstance(content, tuple) else changed
            return with_content(message, whole) if changed else message
        text = plain_text(content)
        if len(text) <= self._limit or await self._contents.marks(text):
            return message
        return with_content(message, await self._offload(text))

    async def _parts(self, parts: Sequence[Any]) -> list[Any]:
        """All parts, with markers for the largest texts; nothing where the text is within limit."""
        texts = {n: text for n, part in enumerate(parts) if isinstance(text := _text(part), str)}
        if sum(map(len, texts.values())) <= self._limit:
            return []
        texts = {n: text for n, text in texts.items() if not await self._contents.marks(text)}
        left = sum(map(len, texts.values()))
        changed = list(parts)
        for position in sorted(texts, key=lambda n: -len(texts[n])):
            if left <= self._limit:
                break
            changed[position] = with_field(
                parts[position], "text", await self._offload(texts[position])
            )
            left -= len(texts[position])
        return changed if left < sum(map(len, texts.values())) else []

    async def _offload(self, text: str) -> str:
        kept = await keep(self._ctx, text, self._known, self._holder)
        self._known[kept.handle] = text
        if kept.artifact is None:
            self._texts[kept.handle] = text
        else:
            self._artifacts[kept.handle] = kept.artifact
        return marker(kept.handle)

    def save(self) -> None:
        add_entries(self._ctx, OFFLOADED_MESSAGES, self._texts)
        note_artifacts(self._ctx, self._artifacts, self._holder)


def _contents(history: Sequence[Any]) -> list[Any]:
    return [field(message, "content") for message in history]


def _reloaded(history: Sequence[Any]) -> set[int]:
    """Positions of results that the model asked to see again and has not seen yet."""
    asked_for: set[str] = set()
    found: set[int] = set()
    for position in range(in_flight(history), len(history)):
        message = history[position]
        asked_for |= {call.id for call in called(message) if call.name == RELOAD_TOOL}
        if role_of(message) == "tool" and str(field(message, "tool_call_id") or "") in asked_for:
            found.add(position)
    return found


def _text(part: Any) -> Any:
    return field(part, "text")
