"""What callers and the store exchange: messages, turns, summaries, checkpoints and the state of a
branch.
"""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["user", "assistant", "tool"]
Outcome = Literal["complete", "interrupted", "failed"]
LedgerKind = Literal[
    "identifier",
    "email",
    "url",
    "path",
    "version",
    "error",
    "amount",
    "date",
    "call",
    "decision",
    "open item",
    "artifact",
]


State = Literal["draft", "current", "superseded", "rejected"]
"""Of a summary or checkpoint: `superseded` by another revision, `rejected` by a revert. To a fork
what it sees of its parent is `current`, whatever the parent has done since.
"""


class Value(BaseModel):
    """A frozen, closed model."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(Value):
    """A call the assistant asked for. `arguments` is the JSON text exactly as the model wrote
    it.
    """

    id: str
    name: str
    arguments: str


class Reasoning(Value):
    """What a provider returned and wants back as it is: a signed thinking block, a reasoning item,
    a thought signature, a block of its own tools, the ids of its items.

    It belongs to the tool call `call_id`, to the content part number `part` (from 0), or to the
    whole message, and stands before it.
    """

    provider: Literal["anthropic", "openai", "gemini"]
    block: dict[str, Any]
    call_id: str | None = None
    part: int | None = None


class Message(Value):
    """One message of a turn, provider-neutral.

    `content` is text, or content parts in OpenAI's form. `synthetic` marks a result that stands in
    for one that never came. `artifact` is the handle of the whole content where `content` is only
    a view of it; the store sets it. `reasoning` is sent with raw turns, to its own provider, and
    appears nowhere else. `extra` keeps fields we store but never send.
    """

    role: Role
    content: str | tuple[dict[str, Any], ...] | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    synthetic: bool = False
    artifact: str | None = None
    reasoning: tuple[Reasoning, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)


class LedgerEntry(Value):
    """A fact taken from a turn by rule. `turn_no` is the last turn that named it, None until the
    turn is numbered.
    """

    kind: LedgerKind
    value: str
    turn_no: int | None = None
    mentions: int = 1


class Turn(Value):
    """A recorded turn. `token_count` is that of the messages whole, in the branch's encoding.

    Messages are as they are stored: what was offloaded is a view that names its artifact.

    `repeated`: the turn key was known with the same content, so nothing was written.
    """

    turn_no: int
    turn_key: str
    messages: tuple[Message, ...]
    token_count: int
    outcome: Outcome
    continues: bool
    occurred_at: datetime
    recorded_at: datetime
    digest: str
    ledger: tuple[LedgerEntry, ...] = ()
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    repeated: bool = False


class Summary(Value):
    """An immutable node of the summary tree over turns `[from_turn, to_turn]`."""

    summary_id: UUID
    level: int
    from_turn: int
    to_turn: int
    headline: str
    text: str
    token_count: int
    recipe: str
    made_by: str
    revision: int
    degraded: bool
    input_tokens: int
    covered_tokens: int
    usage: dict[str, Any] | None = None
    created_at: datetime
    state: State = "current"


class Checkpoint(Value):
    """The state of a branch at a turn: `frontier` holds summary ids, oldest first; `text` is what
    prompts show. Another `revision` at the turn has other nodes in its frontier.
    """

    checkpoint_id: UUID
    turn_no: int
    parent_id: UUID | None
    frontier: tuple[UUID, ...]
    ledger: tuple[LedgerEntry, ...]
    text: str
    token_count: int
    token_usage: dict[str, Any]
    artifact_handles: tuple[str, ...]
    schema_version: int
    created_at: datetime
    revision: int = 1
    state: State = "current"


class Compaction(Value):
    """One group of attempts at one segment, or at one node of the summary tree, as operators see
    it. `error` says why it was skipped, too. `focus` is what a summarizer was asked to look at.

    `input_tokens` and `output_tokens` are what models reported of all calls, also failed ones;
    `price` is what those cost in US dollars, None where it is not known. Each turn since
    `head_turn` was a prompt with `saved_tokens` fewer, once `broken_tokens` of it, which a provider
    may have had in its cache, were read anew. `balance` is what that comes to by now, in tokens:
    what was saved, less what was broken and what models read and wrote. A revert took
    it back after turn `saved_until`, and it saves nothing from there on. `degraded`: of what it
    published something was made without the model that was to make it.
    """

    compaction_id: UUID
    conversation_id: str
    branch_id: str
    level: int
    from_turn: int
    to_turn: int
    status: Literal["running", "completed", "failed", "skipped"]
    reason: str
    attempts: int
    error: str | None
    recipe: str | None
    tokens_before: int | None
    tokens_after: int | None
    focus: str | None
    input_tokens: int
    output_tokens: int
    price: Decimal | None
    head_turn: int | None
    saved_tokens: int | None
    broken_tokens: int | None
    saved_until: int | None = None
    degraded: bool = False
    balance: int
    usage: tuple[dict[str, Any], ...]
    workflow_id: str | None
    run_id: str | None
    started_at: datetime
    finished_at: datetime | None


class Artifact(Value):
    """One appearance of a content in a branch. `sha256` is hexadecimal, `size` in bytes.

    `turn_no` is the turn that brought it; for a named artifact, which alone has a `version`, the
    branch's head when it was put. `offloaded` is what a processor put a reference in the place of;
    its name is the handle that the reference shows. `token_count` is what a prompt pays for it
    whole. `summary` is None until compaction has made one.
    """

    handle: str
    name: str | None
    version: int | None
    media_type: str
    size: int
    sha256: str
    token_count: int
    line_count: int | None
    width: int | None
    height: int | None
    turn_no: int
    source: Literal["message", "part", "put", "offloaded"]
    headline: str | None
    summary: str | None
    created_at: datetime


class Pause(Value):
    """Nothing is compacted: of the branch alone, or of all that its tenant has."""

    of: Literal["branch", "tenant"]
    since: datetime
    because: str | None


class BranchInfo(Value):
    """A branch in the tree of its conversation. `parent_id` and `fork_turn` are None for a root.
    While there is one of `pauses`, nothing of it is compacted. `head_tokens` and
    `checkpoint_tokens` are those of all turns up to these, as they were recorded.
    """

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    parent_id: str | None
    fork_turn: int | None
    head_turn: int
    checkpoint_turn: int
    created_at: datetime
    last_turn_at: datetime | None
    pauses: tuple[Pause, ...] = ()
    head_tokens: int = 0
    checkpoint_tokens: int = 0


class Lag(Value):
    """What compaction has yet to cover beyond what policy keeps raw. `seconds` is the age of the
    oldest such turn.
    """

    turns: int
    tokens: int
    seconds: float


class Ancestor(Value):
    """A branch that turns come from, itself included: those from `from_turn` to `to_turn`, none
    where the latter is smaller.
    """

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    from_turn: int
    to_turn: int


class BranchState(Value):
    """A branch as it stands: what `branch.inspect()` returns.

    `lineage` begins with the branch itself and ends with its root. `head_tokens` counts all turns
    as they are stored. `checkpoints` are ids, oldest first, inherited ones included. While there is
    one of `pauses`, nothing is compacted.
    """

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    encoding: str
    lineage: tuple[Ancestor, ...]
    head_turn: int
    head_tokens: int
    open_run_turn: int | None
    checkpoint: Checkpoint | None
    checkpoints: tuple[UUID, ...]
    frontier: tuple[Summary, ...]
    tail: tuple[Turn, ...]
    lag: Lag
    artifacts: tuple[Artifact, ...]
    compactions: tuple[Compaction, ...]
    pauses: tuple[Pause, ...] = ()

    def to_json(self) -> str:
        """The same as JSON, whatever characters the turns hold."""
        return json.dumps(self.model_dump(mode="json"))
