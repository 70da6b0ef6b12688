"""What of a turn goes to the artifact store, and what the turn keeps in its place: a pointer and a
view.
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from durable_context.artifacts.contents import (
    COUNTED_WHOLE,
    check_size,
    count_tokens,
    encoded,
)
from durable_context.artifacts.encoded_data import fields_of
from durable_context.artifacts.media import BinaryPart, binary_part, stored_part
from durable_context.artifacts.reading import count_lines
from durable_context.models import LedgerEntry, Message, Reasoning
from durable_context.policy import CompactionPolicy
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import (
    CONTENT_WITH_CALLS_OVERHEAD,
    TokenCounter,
    reasoning_tokens,
)
from durable_context.turns.sendable import sendable
from durable_context.turns.views import content_view, media_type_of

HANDLE_BYTES = 16
LABEL_CHARACTERS = 60


class NewArtifact(NamedTuple):
    """An artifact about to be recorded. `message_no` and `part_no` say where it stood."""

    handle: str
    content: bytes
    source: Literal["message", "part", "offloaded"]
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
    """A message as its turn stores it. `whole` is sendable and has all the text, but no data and no
    reasoning.

    `tokens` counts the message whole, `stored_tokens` as it is stored, without its reasoning.
    """

    message: Message
    whole: Message
    tokens: int
    stored_tokens: int
    artifacts: tuple[NewArtifact, ...] = ()


class Original(NamedTuple):
    """What a processor put a reference in the place of, in the message at a position. `name` is
    the handle that the reference shows.
    """

    position: int
    name: str
    content: str

    def artifact(self, counter: TokenCounter) -> NewArtifact:
        tokens = count_tokens(clean(self.content), counter)
        whole = _of_text(self.content, self.position, None, self.name, tokens)
        return whole._replace(source="offloaded")


def new_handle() -> str:
    """Nobody can guess it: 128 random bits."""
    return f"art_{secrets.token_urlsafe(HANDLE_BYTES)}"


def offload_all(
    messages: Sequence[Message],
    *,
    continues: bool,
    policy: CompactionPolicy,
    counter: TokenCounter,
    processed: Collection[int] = (),
) -> list[Offloaded]:
    """Each message as it is stored. Texts of those that a processor `processed`, by position, refer
    to their originals already, and stay. CPU only.
    """
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    offloaded: list[Offloaded] = []
    for position, message in enumerate(messages):
        # The request that a long run works on stays in every prompt as it was said.
        stays = (continues and message.role == "user") or position in processed
        bare = message.model_copy(update={"reasoning": ()}) if message.reasoning else message
        one = _offload(bare, position, names, stays=stays, policy=policy, counter=counter)
        offloaded.append(_with_reasoning(one, message.reasoning) if message.reasoning else one)
    return offloaded


def _with_reasoning(one: Offloaded, reasoning: tuple[Reasoning, ...]) -> Offloaded:
    """Prompts pay for it with the message; summarizers never read it."""
    return one._replace(
        message=one.message.model_copy(update={"reasoning": reasoning}),
        tokens=one.tokens + sum(map(reasoning_tokens, reasoning)),
    )


def _offload(
    message: Message,
    position: int,
    names: dict[str, str],
    *,
    stays: bool,
    policy: CompactionPolicy,
    counter: TokenCounter,
) -> Offloaded:
    name = names.get(message.tool_call_id or "")
    large = policy.offload_tokens
    if stays or not (message.role == "tool" or policy.offload_messages):
        large = None
    if isinstance(message.content, tuple) and not _is_text(message):
        return _offload_parts(message, position, name, large, policy, counter)
    sent = sendable(message)
    text = message_text(message)
    if large is None:
        return _kept(message, sent, counter.count_message(sent))
    tokens = _tokens(sent, counter)
    if tokens <= large and len(text) <= COUNTED_WHOLE:
        return _kept(message, sent, tokens)
    check_size(len(text))
    whole = sent
    if not isinstance(sent.content, str):  # shown whole again, the parts are one text
        whole = sent.model_copy(update={"content": clean(text)})
        tokens = _tokens(whole, counter)
    artifact = _of_text(text, position, None, name, tokens)
    view = pointer_view(artifact, text, policy.view_tokens, counter)
    stored = message.model_copy(update={"content": view, "artifact": artifact.handle})
    shown = _tokens(sendable(stored), counter)
    if shown >= tokens:  # what is large are the calls, not what was said
        return _kept(message, sent, counter.count_message(sent))
    return Offloaded(stored, whole, tokens, shown, (artifact,))


def _kept(message: Message, sent: Message, tokens: int) -> Offloaded:
    """What stays in its turn can stand whole in a prompt, so that every token of it is counted."""
    return Offloaded(message, sent, tokens, tokens)


def _offload_parts(
    message: Message,
    position: int,
    name: str | None,
    large: int | None,
    policy: CompactionPolicy,
    counter: TokenCounter,
) -> Offloaded:
    """Parts that carry data, and texts beside them of over `large` tokens, become artifacts."""
    whole: list[dict[str, Any]] = []
    stored: list[dict[str, Any]] = []
    artifacts: list[NewArtifact] = []
    for part_no, part in enumerate(message.content or ()):
        assert isinstance(part, dict)
        kept, binary = part, binary_part(part)
        if binary is not None:
            artifacts.append(_of_part(binary, position, part_no))
            part = kept = stored_part(binary, artifacts[-1].handle)
        elif large is not None and part.get("type") == "text":
            text = str(part.get("text"))
            tokens = count_tokens(clean(text), counter)
            if tokens > large:
                check_size(len(text))
                artifacts.append(_of_text(text, position, part_no, name, tokens))
                view = pointer_view(artifacts[-1], text, policy.view_tokens, counter)
                kept = part | {"text": view, "artifact": artifacts[-1].handle}
        whole.append(part)
        stored.append(kept)
    sent = sendable(message.model_copy(update={"content": tuple(whole)}))
    tokens = counter.count_message(sent)
    kept_message = message.model_copy(update={"content": tuple(stored)})
    text = clean(message_text(kept_message))
    shown = counter.count_message(sendable(kept_message.model_copy(update={"content": text})))
    return Offloaded(kept_message, sent, tokens, min(tokens, shown), tuple(artifacts))


def is_pointer(message: Message) -> bool:
    """Whether some of what it says is in the artifact store alone."""
    parts = message.content if isinstance(message.content, tuple) else ()
    return message.artifact is not None or any(map(is_text_pointer, parts))


def pointers(message: Message) -> list[str]:
    """Handles of all that stands in the artifact store."""
    parts = message.content if isinstance(message.content, tuple) else ()
    found = [message.artifact, *map(handle_of, parts)]
    return [handle for handle in found if handle is not None]


def handle_of(part: Mapping[str, Any]) -> str | None:
    """Handle of what a stored part stands for: data, or a text of which it is the view."""
    artifact = part.get("artifact")
    return None if artifact is None else str(fields_of(artifact).get("handle", artifact))


def is_text_pointer(part: Mapping[str, Any]) -> bool:
    """Whether a text part is the view of an artifact."""
    return part.get("type") == "text" and part.get("artifact") is not None


def whole_again(message: Message, texts: Mapping[int | None, str]) -> Message:
    """A stored message with its texts, by the place of the part they stood in; None: all of it."""
    if None in texts:
        return message.model_copy(update={"content": texts[None], "artifact": None})
    if not texts or not isinstance(message.content, tuple):
        return message
    parts = [
        {key: value for key, value in part.items() if key != "artifact"} | {"text": texts[number]}
        if number in texts
        else part
        for number, part in enumerate(message.content)
    ]
    return message.model_copy(update={"content": tuple(parts)})


def _tokens(sent: Message, counter: TokenCounter) -> int:
    """Tokens of a sendable message; of a huge text they are an estimate."""
    if not isinstance(sent.content, str):
        return counter.count_message(sent)
    rest = counter.count_message(sent.model_copy(update={"content": None}))
    if sent.content and sent.tool_calls:
        rest += CONTENT_WITH_CALLS_OVERHEAD
    return rest + count_tokens(sent.content, counter)


def _of_text(
    text: str, position: int, part_no: int | None, name: str | None, tokens: int
) -> NewArtifact:
    return NewArtifact(
        handle=new_handle(),
        content=encoded(text),
        source="message" if part_no is None else "part",
        message_no=position,
        part_no=part_no,
        name=_label(name),
        media_type=media_type_of(text),
        token_count=tokens,
        line_count=count_lines(text),
        width=None,
        height=None,
    )


def pointer_view(artifact: NewArtifact, text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The pointer, then the view of the content: beginning and end, or the shape of JSON."""
    head = f"[artifact {artifact.handle}: {artifact.media_type}, {len(artifact.content):,} bytes]\n"
    return head + content_view(clean(text), max_tokens - counter.count(head), counter)


def _is_text(message: Message) -> bool:
    """Whether the parts are text only, which one text can stand for."""
    return all(
        isinstance(part, dict) and part.get("type") == "text" for part in message.content or ()
    )


def _of_part(binary: BinaryPart, position: int, part_no: int) -> NewArtifact:
    check_size(len(binary.data))
    return NewArtifact(
        handle=new_handle(),
        content=binary.data,
        source="part",
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
