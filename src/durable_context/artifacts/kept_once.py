"""Contents kept in a branch's artifact store under a name that follows from them, once each."""

import hashlib
from typing import Protocol

from durable_context.artifacts.contents import decoded, encoded
from durable_context.artifacts.reading import ArtifactContent
from durable_context.errors import ArtifactNotFound
from durable_context.models import Artifact


class ArtifactHolder(Protocol):
    """What a branch offers: `Branch` is one."""

    async def put_artifact(
        self, content: str | bytes, *, name: str, media_type: str | None = None
    ) -> Artifact: ...

    async def load_artifact(self, handle: str) -> ArtifactContent: ...

    async def artifact_history(self, name: str) -> tuple[Artifact, ...]: ...


async def keep_once(
    holder: ArtifactHolder, name: str, content: str, *, media_type: str = "text/plain"
) -> Artifact:
    """The artifact of that name and content, put there if it is not: a retry finds it.

    Two at once may put two versions of the same content: the older is what both get. Raises as
    `Branch.put_artifact` does.
    """
    wanted = hashlib.sha256(encoded(content)).hexdigest()
    found = await _oldest(holder, name, wanted)
    if found is None:
        put = await holder.put_artifact(content, name=name, media_type=media_type)
        found = await _oldest(holder, name, wanted) or put
    return found


async def load_kept(holder: ArtifactHolder, artifact: Artifact) -> str:
    """Its whole text. Raises ArtifactDamaged, ArtifactStoreUnavailable."""
    content = (await holder.load_artifact(artifact.handle)).content
    return content if isinstance(content, str) else decoded(content)


async def _oldest(holder: ArtifactHolder, name: str, sha256: str) -> Artifact | None:
    alike = [version for version in await versions(holder, name) if version.sha256 == sha256]
    return alike[-1] if alike else None


async def versions(holder: ArtifactHolder, name: str) -> tuple[Artifact, ...]:
    """Those of a name, newest first, none if there is none."""
    try:
        return (await holder.artifact_history(name))[::-1]
    except ArtifactNotFound:
        return ()
