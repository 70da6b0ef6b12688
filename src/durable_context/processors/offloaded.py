"""Offloaded contents by handle: in a context's state, or in the artifact store of a branch, where
every process and every fork finds them.
"""

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from durable_context.artifacts.contents import decoded, encoded
from durable_context.artifacts.kept_once import ArtifactHolder, keep_once, versions
from durable_context.errors import ArtifactNotFound, ContextError, ProcessorError
from durable_context.processors.markers import (
    ends_in_marker,
    handle_of,
    is_handle,
    marked,
    marker,
)
from durable_context.processors.recorded import recorded_text
from durable_context.showing import shown
from durable_context.text import clean

if TYPE_CHECKING:
    from durable_context.processors.context import Context

OFFLOADED_MESSAGES: Final = "offloaded_messages"
OFFLOADED_RESULTS: Final = "offloaded_results"
OFFLOADED_ARTIFACTS: Final = "offloaded_artifacts"
OFFLOADED_TO: Final = "offloaded_to"
"""The branch that holds the artifacts, if that is not the context's own."""
RELOAD_TOOL: Final = "reload_offloaded"
"""What this tool answers is not offloaded again before the model has seen it."""

_DEEPEST: Final = 4
_NAMED: Final = "[Result stored as artifact '"


class Kept(NamedTuple):
    """`artifact` is None for a content that is to be kept in the state."""

    handle: str
    artifact: str | None


class Reference(NamedTuple):
    """A text that stands for a content, after `preview` characters of it."""

    content: str
    preview: int


class _Any(Container[str]):
    """Handles that may be known: they are looked up afterwards."""

    def __contains__(self, _: object) -> bool:
        return True


def preview_reference(content: str, handle: str, preview: int, *, kept: bool) -> str:
    """The first `preview` characters and where the rest is: in an artifact, if that is `kept`."""
    return content[:preview] + _ending(content, handle, kept=kept)


def named_reference(artifact_id: str, handle: str) -> str:
    return (
        f"{_NAMED}{artifact_id}'. Call retrieve_artifact('{artifact_id}') to access.]"
        f" {marker(handle)}"
    )


def _ending(content: str, handle: str, *, kept: bool) -> str:
    where = "kept as artifact" if kept else "offloaded to workspace"
    size = len(content)
    return f"...\n\n[Result truncated — full content {where} ({size} chars)] {marker(handle)}"


def check_holder(artifacts: object) -> None:
    """Raises ProcessorError unless artifacts can be kept there."""
    if artifacts is not None and not _holds(artifacts):
        raise ProcessorError(f"artifacts={shown(artifacts)}; it must be a branch or None")


def _holds(store: object) -> bool:
    needed = ("put_artifact", "load_artifact", "artifact_history")
    return all(callable(getattr(store, name, None)) for name in needed)


def known_contents(ctx: "Context") -> dict[str, str | None]:
    """By handle what the state knows of, None for what an artifact holds."""
    known: dict[str, str | None] = dict.fromkeys(_mapping(ctx, OFFLOADED_ARTIFACTS))
    for entry in offloaded_results(ctx):
        if isinstance(handle := entry.get("handle"), str):
            known[handle] = _text(entry.get("content"))
    return known | {key: _text(value) for key, value in _mapping(ctx, OFFLOADED_MESSAGES).items()}


def offloaded_results(ctx: "Context") -> list[Mapping[str, Any]]:
    """Raises ContextError where the state holds something else there."""
    entries: object = ctx.state.get(OFFLOADED_RESULTS)
    listed = cast("Sequence[object]", entries) if isinstance(entries, list | tuple) else None
    if entries is None:
        return []
    if listed is None or not all(
        type(each) is dict or isinstance(each, Mapping) for each in listed
    ):
        what = shown(cast(object, entries))
        raise ContextError(f"state[{OFFLOADED_RESULTS!r}] is {what}; it must be a list of dicts")
    return list(cast("Sequence[Mapping[str, Any]]", listed))


def add_entries(ctx: "Context", key: str, entries: Mapping[str, str]) -> None:
    """Into the dict at `key`, which is replaced by a new one: what is inherited stays as it is."""
    if entries:
        ctx.state.set(key, {**_mapping(ctx, key), **entries})


async def keep(
    ctx: "Context",
    content: str,
    known: Mapping[str, str | None],
    holder: ArtifactHolder | None,
) -> Kept:
    """Choose the handle of a content, and put it where artifacts are kept, once.

    The state stays as it is. Raises as `Branch.put_artifact` does.
    """
    store = ctx.branch if ctx.recording else holder
    for handle in _candidates(content, ctx.task_id):
        other = known.get(handle, content)
        in_artifact = other is None and holder is not None and not ctx.recording
        if other != content and not in_artifact:
            continue
        if store is None:
            return Kept(handle, None)
        held = await versions(store, handle)
        if any(version.sha256 != _sha256(content) for version in held):
            continue
        if ctx.recording:
            return Kept(handle, None)
        artifact = held[-1] if held else await keep_once(store, handle, content)
        return Kept(handle, artifact.handle)
    raise AssertionError("there is always another candidate")


def note_artifacts(
    ctx: "Context", artifacts: Mapping[str, str], holder: ArtifactHolder | None
) -> None:
    """Write into the state which artifacts were kept, and where if it is not `ctx.branch`."""
    add_entries(ctx, OFFLOADED_ARTIFACTS, artifacts)
    if artifacts and holder is not ctx.branch:
        ctx.state.set(OFFLOADED_TO, holder)


class OffloadedContents:
    """What a context has offloaded. With `artifacts=False` no store is asked: no I/O."""

    def __init__(
        self, ctx: "Context", *, artifacts: bool = True, holder: ArtifactHolder | None = None
    ) -> None:
        self._ctx = ctx
        stores = (holder, ctx.state.get(OFFLOADED_TO), ctx.branch) if artifacts else ()
        self._stores = cast("list[ArtifactHolder]", [store for store in stores if _holds(store)])

    @cached_property
    def _known(self) -> dict[str, str | None]:
        return known_contents(self._ctx)

    @cached_property
    def _artifacts(self) -> dict[str, Any]:
        return _mapping(self._ctx, OFFLOADED_ARTIFACTS)

    async def find(self, handle: str) -> str | None:
        """The content, None if there is none. Raises ArtifactDamaged, ArtifactStoreUnavailable,
        DatabaseUnavailable.
        """
        content = self._known.get(handle)
        for store in self._stores if is_handle(handle) else ():
            if content is None:
                content = await self._stored(store, handle)
        return content

    async def marks(self, text: str) -> bool:
        """Whether a whole text is the marker of a content."""
        handle = marked(text, _Any())
        return handle is not None and await self.find(handle) is not None

    async def reference(self, text: object) -> Reference | None:
        """What a text stands for, if it is a marker or reference of ours: what only looks like one
        stands for itself.
        """
        handle = ends_in_marker(text, _Any()) if isinstance(text, str) else None
        content = await self.find(handle) if handle else None
        if content is None:
            return None
        preview = _preview_before(cast(str, text), cast(str, handle), content)
        return None if preview is None else Reference(content, preview)

    async def restored(self, text: str) -> str:
        """The content that a text stands for, however often it was offloaded, or the text."""
        for _ in range(_DEEPEST):
            reference = await self.reference(text)
            if reference is None:
                break
            text = reference.content
        return text

    async def _stored(self, store: ArtifactHolder, handle: str) -> str | None:
        if handle in self._artifacts:
            with suppress(ArtifactNotFound):  # it is in another store
                return await _loaded(store, self._artifacts[handle])
        kept = await versions(store, handle)
        return await _loaded(store, kept[-1].handle) if kept else None


async def offloaded_content(ctx: "Context", handle: str) -> str | None:
    """What `reload_offloaded` returns, None where it does not know the handle."""
    content = await OffloadedContents(ctx).find(handle)
    if content is None and ctx.branch is not None and is_handle(handle):
        recorded = await recorded_text(ctx.branch, handle)
        return recorded.text if recorded else None
    return content


async def reload_offloaded(ctx: "Context", handle: str) -> str:
    """The whole content that MessageOffloader or ToolResultOffloader put away under a handle.

    Contents kept as artifacts are found by every context over the branch or a fork of it. Raises
    ContextError for an unknown handle; ArtifactDamaged, ArtifactStoreUnavailable and
    DatabaseUnavailable where it is known but cannot be read.
    """
    if not isinstance(handle, str) or not handle:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ContextError(f"handle={shown(handle)}; it must be text, such as 'off_0123456789ab'")
    content = await offloaded_content(ctx, handle)
    if content is None:
        raise ContextError(f"the context has no offloaded content of handle {shown(handle)}")
    return content


def _preview_before(text: str, handle: str, content: str) -> int | None:
    """Characters of the content before what a reference ends in, None if it is no reference."""
    if marked(text, {handle}):
        return 0
    for kept in (False, True):
        preview = text.removesuffix(_ending(content, handle, kept=kept))
        # What was recorded and read back was cleaned.
        if preview != text and clean(preview) == clean(content[: len(preview)]):
            return len(preview)
    artifact_id = text.removeprefix(_NAMED).partition("'. Call retrieve_artifact('")[0]
    return 0 if text == named_reference(artifact_id, handle) else None


def _candidates(content: str, scope: str) -> Iterator[str]:
    """Handles of a content: the first, and others for where another content has that one."""
    yield handle_of(content, scope)
    number = 1
    while True:
        yield handle_of(content, f"{scope}\0{number}")
        number += 1


def _sha256(content: str) -> str:
    return hashlib.sha256(encoded(content)).hexdigest()


async def _loaded(store: ArtifactHolder, artifact: str) -> str:
    content = (await store.load_artifact(artifact)).content
    return content if isinstance(content, str) else decoded(content)


def _mapping(ctx: "Context", key: str) -> dict[str, Any]:
    entries: object = ctx.state.get(key)
    if entries is not None and not isinstance(entries, Mapping):
        raise ContextError(f"state[{key!r}] is {shown(entries)}; it must be a dict by handle")
    return dict(cast("Mapping[str, Any]", entries or {}))


def _text(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else str(content)
