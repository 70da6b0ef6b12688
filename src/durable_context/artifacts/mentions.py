"""Tells a summarizer of turns what the artifacts are that turns hold only views of."""

from collections.abc import Mapping
from typing import Any, Final

from durable_context.artifacts.offloading import handle_of
from durable_context.artifacts.summaries import ToldArtifact
from durable_context.models import Message, Turn
from durable_context.summarizers.calls import SUMMARY_LINE

_TOLD_TOKENS: Final = 4_000
"""Of a leaf, for summaries of artifacts together. Those that come first have them."""
_MARGIN: Final = 40
"""Tokens of a headline and the line it stands on."""


class TurnMentions:
    """Summaries by handle, and `texts` of those that turns were told, in their order."""

    def __init__(self, summaries: Mapping[str, ToldArtifact]) -> None:
        self._summaries = summaries
        self._room = _TOLD_TOKENS
        self.texts: list[str] = []

    def told(self, turn: Turn) -> Turn:
        """The turn with the summaries appended to the views, and counted."""
        if not self._summaries:
            return turn
        before = self._room
        messages = tuple(map(self._message, turn.messages))
        tokens = turn.token_count + before - self._room
        return turn.model_copy(update={"messages": messages, "token_count": tokens})

    def _message(self, message: Message) -> Message:
        content = message.content
        if isinstance(content, str):
            said = self._of(message.artifact)
            return message.model_copy(update={"content": f"{content}\n{said}"}) if said else message
        parts = content or ()
        found = [self._of(handle_of(part)) for part in parts]
        if not any(found):
            return message
        told: list[dict[str, Any]] = []
        for part, said in zip(parts, found, strict=True):
            told += [part, {"type": "text", "text": said}] if said else [part]
        return message.model_copy(update={"content": tuple(told)})

    def _of(self, handle: str | None) -> str | None:
        found = self._summaries.get(handle or "")
        if found is None or found.tokens + _MARGIN > self._room:
            return None
        self._room -= found.tokens + _MARGIN
        self.texts.append(f"{found.headline}\n{found.text}")
        return f"{SUMMARY_LINE}{found.headline}\n{found.text}"
