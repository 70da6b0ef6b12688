"""The summarizer protocol: what is asked for, what comes back, and who can be asked."""

from datetime import timedelta
from typing import Protocol

from pydantic import ConfigDict, SkipValidation

from durable_context.models import LedgerEntry, Summary, Turn, Value


class PartStore(Protocol):
    """Keeps partial results by the hash of their input, so that a retry does not pay again."""

    async def load(self, input_hash: bytes) -> "SummaryDraft | None": ...

    async def save(self, input_hash: bytes, draft: "SummaryDraft") -> None: ...


class Attempt(Value):
    """One call of one summarizer, also a failed one. Tokens are the provider's, 0 if not given."""

    made_by: str
    outcome: str
    input_tokens: int = 0
    output_tokens: int = 0
    error: str | None = None


class SummaryDraft(Value):
    """What a summarizer returned. `attempts` holds every call that led here, failed ones too."""

    headline: str
    text: str
    made_by: str
    attempts: tuple[Attempt, ...] = ()


class SummaryRequest(Value):
    """Turns of a leaf (level 0), or nodes to merge, oldest first. Caps count in `encoding`.

    `artifact` says what it is where the one message of the one turn holds no conversation but a
    document: `text/csv, 12,345 bytes, 240 lines`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    level: int
    from_turn: int
    to_turn: int
    turns: tuple[Turn, ...] = ()
    nodes: tuple[Summary, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    encoding: str = "o200k_base"
    max_tokens: int = 400
    headline_max_tokens: int = 32
    timeout: timedelta = timedelta(seconds=60)
    focus: str | None = None
    artifact: str | None = None
    parts: SkipValidation[PartStore | None] = None


class Summarizer(Protocol):
    """`recipe` names and versions what is asked: same recipe, same input, same kept result."""

    @property
    def recipe(self) -> str: ...

    async def summarize(self, request: SummaryRequest) -> SummaryDraft: ...
