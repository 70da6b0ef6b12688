"""What a model reads: turns or nodes as redacted text, delimited as data, cut at message boundaries
into chunks that fit its window.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from durable_context.models import Message, Summary, Turn
from durable_context.prompts.rendering import turns_label
from durable_context.redaction import redact
from durable_context.summarizers import SummaryDraft, SummaryRequest
from durable_context.text import clean, message_text, one_line
from durable_context.tokens import TokenCounter
from durable_context.turns.views import content_view

_RESULT_TOKENS: Final = 400
"""A tool's result or a call's arguments of over twice this many tokens are shown as a view."""
_MESSAGE_TOKENS: Final = 4_000
"""So is what a user or an assistant said, here."""
_PART_MARGIN: Final = 40
_WORDS_PER_TOKEN: Final = 0.7


class Piece(NamedTuple):
    """One message, or a part of a very long one. `head` stands before the first of its turn."""

    head: str
    text: str


def pieces_of(request: SummaryRequest, longest: int, counter: TokenCounter) -> list[Piece]:
    """All of the request, redacted, no piece of more than `longest` tokens."""
    if request.artifact:
        found = [Piece("", redact(clean(message_text(m)))) for m in request.turns[0].messages]
    else:
        found = [*_turn_pieces(request.turns, counter), *map(_node_piece, request.nodes)]
    return [part for piece in found for part in _parts(piece, longest, counter)]


def draft_pieces(drafts: Sequence[SummaryDraft]) -> list[Piece]:
    return [
        Piece(f"## Part {number}: {draft.headline}\n", f"{draft.text}\n")
        for number, draft in enumerate(drafts, 1)
    ]


def pack(pieces: Sequence[Piece], room: int, counter: TokenCounter) -> list[str]:
    """The pieces in order, in as few texts of at most `room` tokens as that allows."""
    chunks: list[str] = []
    chunk = head = ""
    size = 0
    for piece in pieces:
        text = piece.text if piece.head == head else piece.head + piece.text
        tokens = counter.count(text)
        if chunk and size + tokens > room:
            chunks.append(chunk)
            text = piece.head + piece.text
            chunk, size, tokens = "", 0, counter.count(text)
        chunk, size, head = chunk + text, size + tokens, piece.head
    return [*chunks, chunk] if chunk else chunks


def prompt_of(request: SummaryRequest, record: str, max_tokens: int) -> str:
    """The user message: what is asked for, then the record between lines that it cannot forge."""
    focus = redact(clean(request.focus or ""))
    mark = _mark(record, focus)
    subject = f"{turns_label(request.from_turn, request.to_turn)} of the conversation."
    if request.artifact:
        subject = f"A document: {_name(request.artifact)}."
    parts = [
        subject,
        f"Headline: at most {_length(request.headline_max_tokens)}.",
        f"Text: at most {_length(max_tokens)}; fewer where nothing is lost by it.",
    ]
    if focus.strip():
        parts.append(
            "Matters to look at with care, as far as the record says anything about them:"
            f"\n<focus-{mark}>\n{focus}\n</focus-{mark}>"
        )
    parts.append(f"<record-{mark}>\n{record.rstrip()}\n</record-{mark}>")
    return "\n".join(parts)


def _turn_pieces(turns: Sequence[Turn], counter: TokenCounter) -> Iterator[Piece]:
    for turn in turns:
        outcome = "" if turn.outcome == "complete" else f", {turn.outcome}"
        head = f"## Turn {turn.turn_no} ({turn.occurred_at:%A, %Y-%m-%d %H:%M %Z}{outcome})\n"
        names = {call.id: call.name for m in turn.messages for call in m.tool_calls}
        for message in turn.messages:
            for line in _lines(message, names, counter):
                yield Piece(head, f"{line}\n")


def _lines(message: Message, names: dict[str, str], counter: TokenCounter) -> Iterator[str]:
    text = redact(clean(message_text(message)))
    if message.role == "tool":
        name = _name(names.get(message.tool_call_id or "", "a tool"))
        yield f"result of {name}: {_view(text, _RESULT_TOKENS, counter)}"
        return
    if text.strip():
        speaker = f"{message.role} ({_name(message.name)})" if message.name else message.role
        yield f"{speaker}: {_view(text, _MESSAGE_TOKENS, counter)}"
    for call in message.tool_calls:
        arguments = _view(redact(clean(call.arguments)), _RESULT_TOKENS, counter)
        yield f"assistant called {_name(call.name)}: {arguments}"


def _node_piece(node: Summary) -> Piece:
    label = turns_label(node.from_turn, node.to_turn)
    headline = one_line(redact(clean(node.headline)))
    return Piece(f"## {label} {headline}\n", f"{redact(clean(node.text))}\n")


def _name(name: str) -> str:
    return one_line(redact(clean(name[:80])))


def _view(text: str, max_tokens: int, counter: TokenCounter) -> str:
    if counter.truncate(text, 2 * max_tokens) == text:
        return text
    return content_view(text, max_tokens, counter)


def _parts(piece: Piece, longest: int, counter: TokenCounter) -> Iterator[Piece]:
    """The piece, or parts of it cut at lines or words."""
    room = max(1, longest - counter.count(piece.head) - _PART_MARGIN)
    rest = piece.text
    while rest:
        text = counter.truncate(rest, room)
        if text != rest:
            cut = max(text.rfind("\n"), text.rfind(" "))
            text = text[: cut + 1] if cut > len(text) // 2 else text
        if not text:
            return
        rest = rest[len(text) :]
        yield Piece(piece.head, text if text.endswith("\n") else f"{text}\n")


def _mark(*texts: str) -> str:
    """A word that is in none of the texts: who writes them cannot know the hash of them all."""
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    while any(digest[:16] in text for text in texts):
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest[:16]


def _length(tokens: int) -> str:
    return f"{tokens} tokens, which are about {max(3, int(tokens * _WORDS_PER_TOKEN))} words"
