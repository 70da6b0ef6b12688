"""Records of an exported branch that are rows of the database: closed models of all they may say.

Fields stand in the order of the columns an import writes. See docs/export-format.md.
"""

from typing import Annotated, Literal, NamedTuple
from uuid import UUID

from pydantic import BeforeValidator, Field, model_validator

from durable_context import stored_json
from durable_context.exports.types import (
    Count,
    Figure,
    Filled,
    FilledShown,
    Free,
    Handle,
    Places,
    Positive,
    Sha256,
    Shown,
    Small,
    Term,
    Text,
    Time,
    bounded_json,
)
from durable_context.models import LedgerEntry, LedgerKind, Message, Outcome, Value


class ArtifactRecord(Value):
    kind: Literal["artifact"]
    artifact_no: Positive
    handle: Handle
    turn_no: Count
    source: Literal["message", "part", "put", "offloaded"]
    message_no: Count | None = None
    part_no: Count | None = None
    name: Filled | None = None
    version: Positive | None = None
    media_type: Filled
    sha256: Sha256
    size: Figure
    token_count: Count
    line_count: Count | None = None
    width: Count | None = None
    height: Count | None = None
    schema_version: Small
    created_at: Time


class ArtifactSummaryRecord(Value):
    kind: Literal["artifact_summary"]
    sha256: Sha256
    recipe: Filled
    headline: FilledShown
    text: FilledShown
    token_count: Positive
    input_tokens: Count
    made_by: Filled
    degraded: bool
    usage: Free | None = None
    schema_version: Small
    created_at: Time


class PromptPartsRecord(Value):
    """`parts` is JSON text, whose SHA-256 `hash` is."""

    kind: Literal["prompt_parts"]
    hash: Sha256
    parts: Text


class ShortForm(Value):
    """The view of a message; without one of its own, the message is stored as its view."""

    message: Message | None = None
    tokens: Count


class Fact(LedgerEntry):
    """A ledger entry with the tokens of its line in a prompt, of an older row in `tokens`."""

    value: Shown
    turn_no: Positive | None = None
    mentions: Count = 1
    tokens: Count | None = None
    line_tokens: Count | None = None


class Entry(LedgerEntry):
    """A ledger entry of a checkpoint."""

    value: Shown
    turn_no: Positive | None = None
    mentions: Count = 1


class TurnRecord(Value):
    """`message_terms` are what each message is found by, as text of PostgreSQL's type tsvector."""

    kind: Literal["turn"]
    turn_no: Positive
    turn_key: Filled
    content_hash: Sha256
    messages: Annotated[tuple[Message, ...], BeforeValidator(bounded_json), Field(min_length=1)]
    message_tokens: tuple[Count, ...]
    views: Annotated[dict[str, ShortForm], BeforeValidator(bounded_json)] | None = None
    token_count: Count
    stored_tokens: Count
    raw_tokens: Count
    head_tokens: Figure
    open_run_turn: Positive | None = None
    artifact_count: Count
    outcome: Outcome
    continues: bool
    digest: Shown
    digest_tokens: Count
    ledger: tuple[Fact, ...]
    message_terms: tuple[Text, ...]
    speakers: tuple[Term, ...]
    occurred_at: Time
    recorded_at: Time
    usage: Free | None = None
    metadata: Free | None = None
    manifest: Free | None = None
    prompt_parts_hash: Sha256 | None = None
    schema_version: Small

    @model_validator(mode="after")
    def _fits(self) -> "TurnRecord":
        if len(self.message_tokens) != len(self.messages):
            raise ValueError("message_tokens has not one figure per message")
        if len(self.message_terms) != len(self.messages):
            raise ValueError("message_terms has not those of each message")
        positions = {str(position) for position in range(len(self.messages))}
        if self.views and not positions.issuperset(self.views):
            raise ValueError("views are of messages that are not there")
        if (self.open_run_turn or 0) > self.turn_no:
            raise ValueError("the open run begins after it")
        return self


class SummaryRecord(Value):
    kind: Literal["summary"]
    summary_id: UUID
    level: Annotated[int, Field(ge=0, le=2**15 - 1)]
    from_turn: Positive
    to_turn: Positive
    recipe: Filled
    input_hash: Sha256
    revision: Positive
    headline: FilledShown
    text: FilledShown
    token_count: Positive
    input_tokens: Count
    covered_tokens: Figure
    made_by: Filled
    degraded: bool
    usage: Free | None = None
    schema_version: Small
    created_at: Time


class NodeSection(Value):
    """Where a node stands in a checkpoint's text, and its headline."""

    kind: Literal["node"]
    id: UUID
    from_turn: Positive
    to_turn: Positive
    tokens: Count
    short: Text
    short_tokens: Count
    words: Shown | None = None
    words_tokens: Count | None = None
    start: Count
    end: Count


def _parsed(facts: object) -> object:
    return stored_json.loads(facts) if isinstance(facts, str) else facts


class LedgerSection(Value):
    """`facts`, which is JSON text, are turn, kind, value, tokens and mentions of those at hand when
    the ledger is cut. The last three fields are those of older checkpoints, and not read.
    """

    kind: Literal["ledger"]
    start: Count
    end: Count
    tokens: Count
    facts: Annotated[
        tuple[tuple[Positive, LedgerKind, Shown, Count, Count], ...] | None,
        BeforeValidator(_parsed),
    ] = None
    heading_tokens: Count | None = None
    line_lengths: tuple[Count, ...] | None = None
    line_tokens: tuple[Count, ...] | None = None


class CheckpointRecord(Value):
    kind: Literal["checkpoint"]
    checkpoint_id: UUID
    turn_no: Positive
    parent_id: UUID | None = None
    frontier: Annotated[tuple[UUID, ...], Field(min_length=1)]
    leaf_count: Positive
    sections: tuple[Annotated[NodeSection | LedgerSection, Field(discriminator="kind")], ...]
    ledger: tuple[Entry, ...]
    text: Text
    token_count: Positive
    token_usage: Free
    artifact_handles: tuple[Handle, ...]
    schema_version: Small
    created_at: Time

    @model_validator(mode="after")
    def _fits(self) -> "CheckpointRecord":
        nodes = [part.id for part in self.sections if isinstance(part, NodeSection)]
        if nodes != list(self.frontier):
            raise ValueError("its sections are not those of its frontier")
        ends = [0, *(position for part in self.sections for position in (part.start, part.end))]
        if ends != sorted(ends) or ends[-1] > len(self.text):
            raise ValueError("its sections are not parts of its text, one after the other")
        return self


class Posting(NamedTuple):
    """A term in a document: how often, in how many leaves up to this one, and in which messages of
    the leaf, a byte each.
    """

    frequency: Small
    nth: Count
    places: Places


class DocumentRecord(Value):
    """What retrieval ranks: a leaf, a node above the leaves, or the artifact of that number."""

    kind: Literal["document"]
    to_turn: Count
    level: Annotated[int, Field(ge=0, le=2**15 - 1)]
    artifact_no: Count
    from_turn: Count
    length: Count
    nth: Count
    total_length: Figure
    turn_messages: tuple[Positive, ...]
    message_lengths: tuple[Count, ...]
    postings: dict[Term, Posting]

    @property
    def is_leaf(self) -> bool:
        return self.level == self.artifact_no == 0

    @model_validator(mode="after")
    def _fits(self) -> "DocumentRecord":
        if self.level and self.artifact_no:
            raise ValueError("an artifact has no level")
        turns = self.to_turn - self.from_turn + 1 if self.is_leaf else 0
        if len(self.turn_messages) != turns:
            raise ValueError(f"turn_messages is to have {turns} figures")
        if sum(self.turn_messages) != len(self.message_lengths):
            raise ValueError("message_lengths has not one figure per message")
        if any(posting.nth > self.nth for posting in self.postings.values()):
            raise ValueError("a term is in more leaves than there are")
        return self
