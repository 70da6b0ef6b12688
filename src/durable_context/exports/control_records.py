"""Records of what was done with a branch: its compactions, and what is pinned."""

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from durable_context.exports.types import (
    Count,
    Figure,
    Filled,
    FilledShown,
    Positive,
    Text,
    Time,
    bounded_json,
)
from durable_context.models import LedgerKind, Value
from durable_context.text import one_line


class CompactionRecord(Value):
    """History; nothing reads it to make prompts."""

    kind: Literal["compaction"]
    from_turn: Positive
    to_turn: Positive
    status: Literal["completed", "failed", "skipped"]
    reason: Text
    attempts: Count
    error: Text | None = None
    recipe: Text | None = None
    tokens_before: Figure | None = None
    tokens_after: Figure | None = None
    usage: Annotated[tuple[dict[str, Any], ...], BeforeValidator(bounded_json)]
    workflow_id: Text | None = None
    run_id: Text | None = None
    started_at: Time
    finished_at: Time | None = None
    level: Annotated[int, Field(ge=0, le=2**15 - 1)] = 0
    focus: Filled | None = None
    input_tokens: Figure = 0
    output_tokens: Figure = 0
    price: Annotated[Decimal, Field(ge=0, max_digits=30)] | None = None
    head_turn: Count | None = None
    saved_tokens: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    broken_tokens: Figure | None = None


class PinRecord(Value):
    """A pinned turn, or a fact of its ledger."""

    kind: Literal["pin"]
    turn_no: Positive
    fact_kind: LedgerKind | None = None
    fact: FilledShown | None = None
    pinned_at: Time

    @model_validator(mode="after")
    def _fits(self) -> "PinRecord":
        if (self.fact is None) != (self.fact_kind is None):
            raise ValueError("a fact has a kind")
        if self.fact is not None and one_line(self.fact) != self.fact:
            raise ValueError("a fact is one line")
        return self
