"""Contents that `prepare` offloads are in the turns themselves: a handle follows from its content,
so that they are found again without having been stored anew.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from durable_context.artifacts.contents import decoded
from durable_context.models import Message
from durable_context.processors.markers import handle_of
from durable_context.text import clean

if TYPE_CHECKING:
    from durable_context.branch import Branch

TURNS: Final = 64
"""Newest turns that are looked through: prompts show fewer as they were recorded."""


async def recorded_content(branch: "Branch", handle: str) -> str | None:
    """The text of a message of the newest turns that a prompt shows under this handle.

    Raises ArtifactDamaged, ArtifactStoreUnavailable, DatabaseUnavailable.
    """
    scope = str(branch.branch_uuid)
    for turn in reversed(await branch.newest_turns(TURNS)):
        for message in turn.messages:
            async for text in _texts(branch, message):
                if handle_of(text, scope) == handle:
                    return text
    return None


async def _texts(branch: "Branch", message: Message) -> AsyncIterator[str]:
    """What prompts show of it, whole and as it is stored."""
    parts: tuple[dict[str, Any], ...] = ({"type": "text", "text": message.content or ""},)
    artifacts = [message.artifact]
    if isinstance(message.content, tuple):
        parts = message.content
        artifacts = [part.get("artifact") for part in parts]
    for part, artifact in zip(parts, artifacts, strict=True):
        if part["type"] != "text":
            continue
        yield clean(part["text"])
        if isinstance(artifact, str):
            content = (await branch.load_artifact(artifact)).content
            yield clean(content if isinstance(content, str) else decoded(content))
