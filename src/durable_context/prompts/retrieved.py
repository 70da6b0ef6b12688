"""What the one read before a model call found for the message: turns, nodes and artifacts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from durable_context import stored_json
from durable_context.artifacts.contents import decoded, unpack
from durable_context.models import Message
from durable_context.turns.sendable import sendable


class RetrievedTurn(NamedTuple):
    """`before` messages of earlier turns come first in the leaf that covers the turn."""

    turn_no: int
    occurred_at: datetime
    before: int
    messages: tuple[Message, ...]


class RetrievedNode(NamedTuple):
    """A leaf with those of its turns that match best, oldest first; a turn that no leaf covers yet
    (`summary_id` is None); or a node of a higher level, with its text and no turns.

    `spoken` scores messages of the leaf, each together with the one before it, by their number in
    the leaf from 1.
    """

    score: float
    level: int
    from_turn: int
    to_turn: int
    summary_id: str | None
    headline: str | None
    text: str | None
    spoken: Mapping[int, float]
    turns: tuple[RetrievedTurn, ...]


class RetrievedArtifact(NamedTuple):
    """`text` is None where the artifact is large or no text. `sha256`: of the content, which may
    have come more than once.
    """

    score: float
    handle: str
    turn_no: int
    source: str
    name: str | None
    media_type: str
    size: int
    headline: str | None
    summary: str | None
    text: str | None
    sha256: bytes


Retrieved = RetrievedNode | RetrievedArtifact


def read_retrieved(
    nodes: str | None, artifacts: Sequence[tuple[Any, ...]] | None
) -> tuple[Retrieved, ...]:
    """Both in the order of their ranks, from what the statement returns."""
    ranked: list[tuple[int, Retrieved]] = [
        (rank, _node(*fields)) for rank, *fields in (stored_json.loads(nodes) if nodes else ())
    ]
    ranked += [(rank, _artifact(*fields)) for rank, *fields in artifacts or ()]
    return tuple(found for _, found in sorted(ranked, key=lambda item: item[0]))


def _node(
    score: float,
    level: int,
    from_turn: int,
    to_turn: int,
    summary_id: str | None,
    headline: str | None,
    text: str | None,
    spoken: list[tuple[int, float]] | None,
    turns: list[Any] | None,
) -> RetrievedNode:
    return RetrievedNode(
        score,
        level,
        from_turn,
        to_turn,
        summary_id,
        headline,
        text,
        dict(spoken or ()),
        tuple(
            RetrievedTurn(
                turn_no,
                datetime.fromisoformat(occurred_at),
                before,
                tuple(sendable(stored_json.load_message(message)) for message in messages),
            )
            for turn_no, occurred_at, before, messages in turns or ()
        ),
    )


def _artifact(
    score: float,
    handle: str,
    turn_no: int,
    source: str,
    name: str | None,
    media_type: str,
    size: int,
    headline: str | None,
    summary: str | None,
    compression: str | None,
    sha256: bytes,
    data: bytes | None,
) -> RetrievedArtifact:
    text = None
    if compression is not None and data is not None:
        text = decoded(unpack(compression, data, size, sha256))
    return RetrievedArtifact(
        score, handle, turn_no, source, name, media_type, size, headline, summary, text, sha256
    )
