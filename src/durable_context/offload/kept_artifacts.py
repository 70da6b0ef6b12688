"""Originals in the artifact store of a branch, in place of files."""

from typing import Final, Protocol

from durable_context.artifacts.contents import decoded
from durable_context.artifacts.kept_once import ArtifactHolder, keep_once, versions
from durable_context.errors import ArtifactNotFound, InvalidArgument
from durable_context.models import Artifact
from durable_context.offload.stores import SUFFIXES, Kind, NewFile, StoredFile, folder_of
from durable_context.showing import shown

_MEDIA_TYPES: Final[dict[Kind, str]] = {
    "tool_message": "text/plain",
    "message_group": "application/json",
}
_METHODS: Final = ("put_artifact", "load_artifact", "artifact_history", "artifacts")
_PLACEHOLDER: Final = "art_" + "x9" * 22
"""Longer in tokens than any handle, which is as long as half of it."""


class ArtifactLister(ArtifactHolder, Protocol):
    """What a branch offers: `Branch` is one."""

    async def artifacts(self) -> tuple[Artifact, ...]: ...


class ArtifactOffloads:
    """Those of one chat, named by content, so that a retry finds them. A fork of the branch sees
    what its parent kept.
    """

    def __init__(self, branch: ArtifactLister, chat_id: str) -> None:
        if not all(callable(getattr(branch, name, None)) for name in _METHODS):
            raise InvalidArgument(f"artifacts={shown(branch)}; it must be a Branch")
        self._branch = branch
        self._prefix = f"offload/{folder_of(chat_id)}/"

    def placeholder(self, new: NewFile) -> str:
        return _PLACEHOLDER

    async def put(self, new: NewFile) -> StoredFile:
        """Raises ArtifactTooLarge, ArtifactStoreUnavailable, DatabaseUnavailable, UnknownBranch."""
        name, media_type = self._prefix + new.file_name, _MEDIA_TYPES[new.kind]
        kept = await keep_once(self._branch, name, decoded(new.data), media_type=media_type)
        return _stored(kept, new.kind, new.name)

    async def load(self, reference: str) -> str:
        """Raises ArtifactNotFound, which says the same of whatever else the branch holds,
        ArtifactDamaged, ArtifactStoreUnavailable.
        """
        try:
            found = await self._branch.load_artifact(reference)
        except InvalidArgument as error:
            raise ArtifactNotFound(f"{shown(reference, 60)} is no artifact of the chat") from error
        if self._kind(found.artifact) is None:
            raise ArtifactNotFound(f"the chat has no artifact {shown(reference, 60)}")
        return found.content if isinstance(found.content, str) else decoded(found.content)

    async def files(self) -> tuple[StoredFile, ...]:
        """Oldest first. The artifact store does not know names of tools."""
        found: list[StoredFile] = []
        for newest in await self._branch.artifacts():
            if not (newest.name or "").startswith(self._prefix):
                continue
            kept = newest if newest.version == 1 else await self._first(newest.name or "")
            kind = self._kind(kept) if kept else None
            if kept and kind:
                found.append(_stored(kept, kind, None))
        return tuple(sorted(found, key=lambda file: file.created_at))

    async def _first(self, name: str) -> Artifact | None:
        """What `put` answered with, where there are more versions."""
        ours = [kept for kept in await versions(self._branch, name) if self._kind(kept)]
        return ours[-1] if ours else None

    def _kind(self, artifact: Artifact) -> Kind | None:
        """None if it is no original of the chat: a name says what the content must be."""
        kinds: tuple[Kind, ...] = ("tool_message", "message_group")
        names: dict[str, Kind] = {
            f"{self._prefix}{artifact.sha256}{SUFFIXES[kind]}": kind for kind in kinds
        }
        return names.get(artifact.name or "")


def _stored(artifact: Artifact, kind: Kind, name: str | None) -> StoredFile:
    return StoredFile(
        reference=artifact.handle,
        kind=kind,
        sha256=artifact.sha256,
        size=artifact.size,
        name=name,
        created_at=artifact.created_at,
    )
