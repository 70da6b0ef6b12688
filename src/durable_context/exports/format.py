"""The format of an exported branch: its first line and its last, contents and pieces, and the order
of everything. See docs/export-format.md.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, model_validator

from durable_context.artifacts.contents import LARGEST
from durable_context.exports.control_records import CompactionRecord, PinRecord
from durable_context.exports.records import (
    ArtifactRecord,
    ArtifactSummaryRecord,
    CheckpointRecord,
    DocumentRecord,
    PromptPartsRecord,
    SummaryRecord,
    TurnRecord,
)
from durable_context.exports.types import Count, Figure, Filled, Positive, Sha256, Text, Time
from durable_context.models import Value

FORMAT: Final = "durable-context-branch"
VERSION: Final = 3
PIECE: Final = 524_288
"""Characters of a piece: JSON's escapes in it at most double them, UTF-8 takes up to 4 bytes."""


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
    pins: Count


class BranchRecord(Value):
    kind: Literal["branch"]
    format: Literal["durable-context-branch"]
    version: Literal[3]
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
    | PinRecord
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
    "pin",
)
"""Kinds between the first record and the last, in the order in which they follow each other."""

RECORD: "TypeAdapter[Record]" = TypeAdapter(Annotated[Record, Field(discriminator="kind")])
