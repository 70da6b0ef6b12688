"""Keeps large tool results aside; the conversation gets their beginning and a reference."""

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel

from durable_context.artifacts.kept_once import ArtifactHolder
from durable_context.processors.history import written
from durable_context.processors.offloaded import (
    OFFLOADED_RESULTS,
    RELOAD_TOOL,
    Kept,
    OffloadedContents,
    check_holder,
    keep,
    known_contents,
    named_reference,
    note_artifacts,
    offloaded_results,
    preview_reference,
)
from durable_context.processors.pipeline import POST_TOOL_CALL, ContextProcessor
from durable_context.processors.round_window import check_whole

if TYPE_CHECKING:
    from durable_context.processors.context import Context

RESULT: Final = "tool_result"
_UNKNOWN: Final = "unknown"


class ToolResultOffloader(ContextProcessor):
    """Replaces a `tool_result` of more than `max_size` characters by its first `max_size // 2` and
    a reference with a handle for `reload_offloaded`.

    Payload keys: `tool_result`, `tool_name`, `tool_call_id`, `large_output` (offload whatever the
    size) and `artifact_id` (the reference names it and has no preview). Of dicts and lists the JSON
    text counts. What `reload_offloaded` answers is left alone.

    Adds `{tool_name, tool_call_id, content, size, artifact_id, handle}` to
    `state["offloaded_results"]`, the same result once. With `artifacts`, a branch, the content is
    an artifact named by the handle before anything refers to it; the entry then has its handle as
    `artifact` and no content. Raises as `Branch.put_artifact` does, and nothing has changed then.
    """

    def __init__(
        self,
        *,
        max_size: int = 5000,
        name: str = "tool_result_offloader",
        artifacts: ArtifactHolder | None = None,
    ) -> None:
        super().__init__(POST_TOOL_CALL, name=name)
        check_whole("max_size", max_size)
        check_holder(artifacts)
        self._max_size = max_size
        self._artifacts = artifacts
        self.pure = artifacts is None

    @property
    def max_size(self) -> int:
        return self._max_size

    async def process(self, ctx: "Context", payload: dict[str, Any]) -> None:
        result = payload.get(RESULT)
        if result is None or payload.get("tool_name") == RELOAD_TOOL:
            return
        content = plain_text(result)
        if len(content) <= self._max_size and not payload.get("large_output"):
            return
        if not await self._is_own_reference(ctx, content):
            kept = await keep(ctx, content, known_contents(ctx), self._artifacts)
            self._note(ctx, payload, content, kept)
            durable = ctx.recording or kept.artifact is not None
            payload[RESULT] = self._reference(payload, content, kept.handle, durable)

    async def _is_own_reference(self, ctx: "Context", text: str) -> bool:
        contents = OffloadedContents(ctx, artifacts=not self.pure, holder=self._artifacts)
        reference = await contents.reference(text)
        return reference is not None and reference.preview <= self._max_size // 2

    def _note(self, ctx: "Context", payload: dict[str, Any], content: str, kept: Kept) -> None:
        artifact_id = payload.get("artifact_id")
        entry: dict[str, Any] = {
            "tool_name": written(payload.get("tool_name") or _UNKNOWN),
            "tool_call_id": str(payload.get("tool_call_id") or _UNKNOWN),
            "size": len(content),
            "artifact_id": str(artifact_id) if artifact_id else None,
            "handle": kept.handle,
        }
        entry |= {"artifact": kept.artifact} if kept.artifact else {"content": content}
        entries = offloaded_results(ctx)
        if not any(each.get("handle") == kept.handle and each == entry for each in entries):
            ctx.state.set(OFFLOADED_RESULTS, [*entries, entry])
        if kept.artifact:
            note_artifacts(ctx, {kept.handle: kept.artifact}, self._artifacts)

    def _reference(self, payload: dict[str, Any], content: str, handle: str, kept: bool) -> str:
        artifact_id = payload.get("artifact_id")
        if artifact_id:
            return named_reference(str(artifact_id), handle)
        return preview_reference(content, handle, self._max_size // 2, kept=kept)


def plain_text(value: Any) -> str:
    """Text as it is, bytes decoded, what JSON can hold as JSON, else what `str` makes of it. Raises
    ProcessorError where it makes nothing.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast(bytes, value)).decode(errors="replace")
    if isinstance(value, dict | list | tuple | BaseModel):
        with suppress(TypeError, ValueError, RecursionError):  # odd keys, cycles
            return json.dumps(value, ensure_ascii=False, default=_plain)
    return written(cast(object, value))


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
