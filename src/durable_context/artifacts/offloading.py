"""What of a turn goes to the artifact store, and what the turn keeps in its place: a pointer and a
view.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from durable_context.artifacts.contents import check_size, count_tokens
from durable_context.artifacts.media import BinaryPart, binary_part, stored_part
from durable_context.models import LedgerEntry, Message
from durable_context.policy import CompactionPolicy
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import TokenCounter
from durable_context.turns.sendable import sendable
from durable_context.turns.views import content_view, media_type_of

HANDLE_BYTES = 16
LABEL_CHARACTERS = 60


class NewArtifact(NamedTuple):
    """An artifact about to be recorded. `message_no` and `part_no` say where it stood."""

    handle: str
    content: bytes
    message_no: int
    part_no: int | None
    name: str | None
    media_type: str
    token_count: int
    line_count: int | None
    width: int | None
    height: int | None

    def row(self) -> dict[str, Any]:
        """What the database function takes, without the content."""
        fields = self._asdict()
        content: bytes = fields.pop("content")
        return fields | {
            "source": "message" if self.part_no is None else "part",
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }

    def ledger_entry(self) -> LedgerEntry:
        """So that the handle survives every summary."""
        label = f"{self.name}, " if self.name else ""
        size = f"{len(self.content):,} bytes"
        return LedgerEntry(
            kind="artifact", value=f"{self.handle} ({label}{self.media_type}, {size})"
        )


class Offloaded(NamedTuple):
    """A message as its turn stores it. `whole` is sendable and has all the text, but no data.

    `tokens` counts the message whole, `stored_tokens` as it is stored.
    """

    message: Message
    whole: Message
    tokens: int
    stored_tokens: int
    artifacts: tuple[NewArtifact, ...] = ()


def new_handle() -> str:
    """Nobody can guess it: 128 random bits."""
    return f"art_{secrets.token_urlsafe(HANDLE_BYTES)}"


def offload_all(
    messages: Sequence[Message], *, continues: bool, policy: CompactionPolicy, counter: TokenCounter
) -> list[Offloaded]:
    """Each message as it is stored. CPU only."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    offloaded: list[Offloaded] = []
    for position, message in enumerate(messages):
        # The request that a long run works on stays in every prompt as it was said.
        task = continues and message.role == "user"
        one = _offload(message, position, names, task=task, policy=policy, counter=counter)
        offloaded.append(one)
    return offloaded


def _offload(
    message: Message,
    position: int,
    names: dict[str, str],
    *,
    task: bool,
    policy: CompactionPolicy,
    counter: TokenCounter,
) -> Offloaded:
    message, artifacts = _without_data(message, position)
    sent = sendable(message)
    text = message_text(message)
    tokens = _tokens(sent, counter)
    if isinstance(message.content, tuple) and not _is_text(message):
        shown = _tokens(sent.model_copy(update={"content": clean(text)}), counter)
        return Offloaded(message, sent, tokens, min(tokens, shown), artifacts)
    by_policy = policy.offload_messages and not task
    if tokens <= policy.offload_tokens or not (message.role == "tool" or by_policy):
        return Offloaded(message, sent, tokens, tokens)
    check_size(len(text))
    if not isinstance(sent.content, str):  # shown whole again, the parts are one text
        sent = sent.model_copy(update={"content": clean(text)})
        tokens = _tokens(sent, counter)
    artifact = _of_text(text, position, names.get(message.tool_call_id or ""), tokens)
    view = pointer_view(artifact, text, policy.view_tokens, counter)
    stored = message.model_copy(update={"content": view, "artifact": artifact.handle})
    shown = _tokens(sendable(stored), counter)
    if shown >= tokens:  # what is large are the calls, not what was said
        return Offloaded(message, sent, tokens, tokens)
    return Offloaded(stored, sent, tokens, shown, (artifact,))


def _tokens(sent: Message, counter: TokenCounter) -> int:
    """Tokens of a sendable message; of a huge text they are an estimate."""
    if not isinstance(sent.content, str):
        return counter.count_message(sent)
    rest = counter.count_message(sent.model_copy(update={"content": None}))
    return rest + count_tokens(sent.content, counter)


def _of_text(text: str, position: int, name: str | None, tokens: int) -> NewArtifact:
    return NewArtifact(
        handle=new_handle(),
        # What UTF-8 cannot hold is kept all the same.
        content=text.encode(errors="surrogatepass"),
        message_no=position,
        part_no=None,
        name=_label(name),
        media_type=media_type_of(text),
        token_count=tokens,
        line_count=text.count("\n") + 1,
        width=None,
        height=None,
    )


def pointer_view(artifact: NewArtifact, text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The pointer, then the view of the content: beginning and end, or the shape of JSON."""
    head = f"[artifact {artifact.handle}: {artifact.media_type}, {len(artifact.content):,} bytes]\n"
    return head + content_view(clean(text), max_tokens - counter.count(head), counter)


def _is_text(message: Message) -> bool:
    """Whether the parts are text only, which one text can stand for."""
    return all(set(part) == {"type", "text"} for part in message.content or ())


def _without_data(message: Message, position: int) -> tuple[Message, tuple[NewArtifact, ...]]:
    """The message with references in place of binary parts, which become artifacts."""
    if not isinstance(message.content, tuple):
        return message, ()
    parts: list[dict[str, Any]] = []
    artifacts: list[NewArtifact] = []
    for part_no, part in enumerate(message.content):
        binary = binary_part(part)
        if binary is None:
            parts.append(part)
            continue
        artifact = _of_part(binary, position, part_no)
        artifacts.append(artifact)
        parts.append(stored_part(binary, artifact.handle))
    if not artifacts:
        return message, ()
    return message.model_copy(update={"content": tuple(parts)}), tuple(artifacts)


def _of_part(binary: BinaryPart, position: int, part_no: int) -> NewArtifact:
    check_size(len(binary.data))
    return NewArtifact(
        handle=new_handle(),
        content=binary.data,
        message_no=position,
        part_no=part_no,
        name=_label(binary.name),
        media_type=binary.media_type,
        token_count=binary.tokens,
        line_count=None,
        width=binary.width,
        height=binary.height,
    )


def _label(name: str | None) -> str | None:
    return one_line(clean(name))[:LABEL_CHARACTERS] or None if name else None


def dump_artifacts(artifacts: Sequence[NewArtifact]) -> str | None:
    """For the database function, None if there are none."""
    return json.dumps([artifact.row() for artifact in artifacts]) if artifacts else None
