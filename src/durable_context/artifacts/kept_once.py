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

    Two at once may put two versions of the same content. Raises as `Branch.put_artifact` does.
    """
    wanted = hashlib.sha256(encoded(content)).hexdigest()
    for version in await versions(holder, name):
        if version.sha256 == wanted:
            return version
    return await holder.put_artifact(content, name=name, media_type=media_type)


async def load_kept(holder: ArtifactHolder, artifact: Artifact) -> str:
    """Its whole text. Raises ArtifactDamaged, ArtifactStoreUnavailable."""
    content = (await holder.load_artifact(artifact.handle)).content
    return content if isinstance(content, str) else decoded(content)


async def versions(holder: ArtifactHolder, name: str) -> tuple[Artifact, ...]:
    """Those of a name, newest first, none if there is none."""
    try:
        return (await holder.artifact_history(name))[::-1]
    except ArtifactNotFound:
        return ()
