"""Records of an exported branch: closed models of all that a stream may say. See
docs/export-format.md.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    TypeAdapter,
    model_validator,
)

from durable_context import stored_json
from durable_context.artifact_contents import LARGEST
from durable_context.errors import InvalidTurn
from durable_context.models import LedgerEntry, Message, Outcome, Value

FORMAT: Final = "durable-context-branch"
VERSION: Final = 1
PIECE: Final = 524_288
"""Characters of a piece: JSON's escapes in it at most double them, UTF-8 takes up to 4 bytes."""
TERM_BYTES: Final = 2_046
"""A lexeme of PostgreSQL has no more."""

LONGEST_REASON: Final = 200


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("text here cannot hold NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text here cannot hold lone surrogates") from None
    return text


def _utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("there is no such time in UTC") from None


def _json(value: object) -> object:
    try:
        stored_json.check_json(value, "it")
    except InvalidTurn as error:
        raise ValueError(str(error)[-LONGEST_REASON:]) from None
    return value


Text = Annotated[str, AfterValidator(_storable)]
Filled = Annotated[Text, Field(min_length=1)]
Term = Annotated[Filled, Field(max_length=TERM_BYTES)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]
Figure = Annotated[int, Field(ge=0, le=2**63 - 1)]
Small = Annotated[int, Field(ge=1, le=2**15 - 1)]
Time = Annotated[AwareDatetime, AfterValidator(_utc)]
Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
Handle = Annotated[str, Field(pattern=r"\Aart_[A-Za-z0-9_-]{22}\z")]
Free = Annotated[dict[str, Any], BeforeValidator(_json)]


class Ancestor(Value):
    """A branch that turns up to `to_turn` came from, the parent first. Information only."""

    branch_id: Text
    to_turn: int


class Counts(Value):
    """How many records of each kind follow; contents are counted once, however many lines."""

    contents: Count
    artifacts: Count
    artifact_summaries: Count
    prompt_parts: Count
    turns: Count
    summaries: Count
    checkpoints: Count
    documents: Count
    compactions: Count


class BranchRecord(Value):
    kind: Literal["branch"]
    format: Literal["durable-context-branch"]
    version: Literal[1]
    conversation_id: Text
    branch_id: Text
    lineage: tuple[Ancestor, ...] = ()
    created_at: Time
    last_turn_at: Time | None = None
    encoding: Filled
    text_search: Filled
    head_turn: Count
    head_tokens: Figure
    open_run_turn: Positive | None = None
    checkpoint_turn: Count
    checkpoint_tokens: Figure
    indexed_documents: Count
    indexed_terms: Figure
    counts: Counts

    @model_validator(mode="after")
    def _fits(self) -> "BranchRecord":
        for name, turn in (
            ("open_run_turn", self.open_run_turn or 0),
            ("checkpoint_turn", self.checkpoint_turn),
        ):
            if turn > self.head_turn:
                raise ValueError(f"{name} is beyond head_turn")
        return self


class ContentRecord(Value):
    """Bytes from `offset` on, in base64. The lines of one content follow each other."""

    kind: Literal["content"]
    sha256: Sha256
    size: Annotated[int, Field(ge=0, le=LARGEST)]
    offset: Annotated[int, Field(ge=0, le=LARGEST)]
    data: str


class ArtifactRecord(Value):
    kind: Literal["artifact"]
    artifact_no: Positive
    handle: Handle
    turn_no: Count
    source: Literal["message", "part", "put"]
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
    headline: Filled
    text: Filled
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
    """A ledger entry with the tokens of its line in a prompt."""

    value: Text
    turn_no: Positive | None = None
    mentions: Count = 1
    tokens: Count


class Entry(LedgerEntry):
    """A ledger entry of a checkpoint."""

    value: Text
    turn_no: Positive | None = None
    mentions: Count = 1


class TurnRecord(Value):
    """`terms` are the lexemes it is found by, as text of PostgreSQL's type tsvector."""

    kind: Literal["turn"]
    turn_no: Positive
    turn_key: Filled
    content_hash: Sha256
    messages: Annotated[tuple[Message, ...], BeforeValidator(_json), Field(min_length=1)]
    message_tokens: tuple[Count, ...]
    views: Annotated[dict[str, ShortForm], BeforeValidator(_json)] | None = None
    token_count: Count
    stored_tokens: Count
    raw_tokens: Count
    head_tokens: Figure
    open_run_turn: Positive | None = None
    artifact_count: Count
    outcome: Outcome
    continues: bool
    digest: Text
    digest_tokens: Count
    ledger: tuple[Fact, ...]
    terms: Text
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
    headline: Filled
    text: Filled
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
    start: Count
    end: Count


class LedgerSection(Value):
    kind: Literal["ledger"]
    start: Count
    end: Count
    tokens: Count
    heading_tokens: Count
    line_lengths: tuple[Count, ...]
    line_tokens: tuple[Count, ...]

    @model_validator(mode="after")
    def _fits(self) -> "LedgerSection":
        if len(self.line_lengths) != len(self.line_tokens):
            raise ValueError("line_lengths and line_tokens are not of the same lines")
        return self


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


class DocumentRecord(Value):
    """What retrieval ranks: a leaf, or the artifact whose number it is. Frequencies by term."""

    kind: Literal["document"]
    from_turn: Count
    to_turn: Count
    artifact_no: Count
    length: Count
    frequencies: dict[Term, Small]


class CompactionRecord(Value):
    """History; nothing reads it to make prompts."""

    kind: Literal["compaction"]
    from_turn: Positive
    to_turn: Positive
    status: Literal["completed", "failed"]
    reason: Text
    attempts: Count
    error: Text | None = None
    recipe: Text | None = None
    tokens_before: Figure | None = None
    tokens_after: Figure | None = None
    usage: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_json)]
    workflow_id: Text | None = None
    run_id: Text | None = None
    started_at: Time
    finished_at: Time | None = None


class EndRecord(Value):
    """`records` and `sha256` are of all lines before it."""

    kind: Literal["end"]
    records: Count
    sha256: Sha256


class PieceRecord(Value):
    """A piece of the text of a record that is too long for one line."""

    kind: Literal["piece"]
    text: Annotated[str, Field(max_length=PIECE)]
    last: bool


Record = (
    ContentRecord
    | ArtifactRecord
    | ArtifactSummaryRecord
    | PromptPartsRecord
    | TurnRecord
    | SummaryRecord
    | CheckpointRecord
    | DocumentRecord
    | CompactionRecord
)

ORDER: Final = (
    "content",
    "prompt_parts",
    "turn",
    "artifact",
    "artifact_summary",
    "summary",
    "checkpoint",
    "document",
    "compaction",
)
"""Kinds between the first record and the last, in the order in which they follow each other."""

RECORD: "TypeAdapter[Record]" = TypeAdapter(Annotated[Record, Field(discriminator="kind")])
