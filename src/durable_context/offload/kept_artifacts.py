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
        name = self._prefix + new.file_name
        await keep_once(self._branch, name, decoded(new.data), media_type=_MEDIA_TYPES[new.kind])
        # Two at once may have put it twice: the first one counts, for both.
        oldest = (await versions(self._branch, name))[-1]
        return _stored(oldest, new.kind, new.name)

    async def load(self, reference: str) -> str:
        """Raises ArtifactNotFound, which says the same of whatever else the branch holds,
        ArtifactDamaged, ArtifactStoreUnavailable.
        """
        found = await self._branch.load_artifact(reference)
        if self._kind(found.artifact) is None:
            raise ArtifactNotFound(f"the chat has no artifact {shown(reference, 60)}")
        return found.content if isinstance(found.content, str) else decoded(found.content)

    async def files(self) -> tuple[StoredFile, ...]:
        """Oldest first. The artifact store does not know names of tools."""
        found: list[StoredFile] = []
        for artifact in await self._branch.artifacts():
            kind = self._kind(artifact)
            if kind is not None:
                found.append(_stored(artifact, kind, None))
        return tuple(found)

    def _kind(self, artifact: Artifact) -> Kind | None:
        name = artifact.name or ""
        if not name.startswith(self._prefix):
            return None
        kinds: tuple[Kind, ...] = ("tool_message", "message_group")
        return next((kind for kind in kinds if name.endswith(SUFFIXES[kind])), None)


def _stored(artifact: Artifact, kind: Kind, name: str | None) -> StoredFile:
    return StoredFile(
        reference=artifact.handle,
        kind=kind,
        sha256=artifact.sha256,
        size=artifact.size,
        name=name,
        created_at=artifact.created_at,
    )
