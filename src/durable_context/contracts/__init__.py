"""What crosses a process: names, ids, requests and results of the compaction workflow and of
activities.

The client starts and signals workflows by these names. They are compatibility data: histories refer
to them. Payloads carry ids, ranges and counts, never content, and stay below 2 KB. Later fields
need defaults.
"""

from decimal import Decimal
from typing import Literal
from uuid import UUID

from durable_context.models import Value
from durable_context.policy import CompactionPolicy

COMPACTION_TASK_QUEUE = "durable-context-compaction"
SUMMARY_TASK_QUEUE = "durable-context-summaries"

COMPACTION_WORKFLOW = "Compaction"
TURN_COMMITTED = "turn_committed"
COMPACT_NOW = "compact_now"
PROGRESS = "progress"

PLAN = "plan"
SUMMARIZE = "summarize"
COMMIT = "commit"
INDEX = "index"
SUMMARIZE_ARTIFACTS = "summarize_artifacts"
OFFLOAD_CONTEXT = "offload_context"

SEARCH_ATTRIBUTES = (
    "CompactionTenant",
    "CompactionConversation",
    "CompactionBranch",
    "CompactionReason",
)

STALE_PLAN = "StalePlan"
SUMMARIZER_REJECTED = "SummarizerRejected"
SUMMARIZER_UNAVAILABLE = "SummarizerUnavailable"
COMPACTION_FAILED = "CompactionFailed"

Reason = Literal["turn", "request", "sweep"]
TreeReason = Literal["merge", "upgrade", "rebuild"]
"""Why nodes are made or replaced before the newest checkpoint."""
OffloadMode = Literal["compact", "compress", "auto"]
SummaryRole = Literal["system", "user"]


def compaction_workflow_id(branch_uuid: UUID) -> str:
    """One id per branch: Temporal keeps at most one run of it open, which makes it the single
    writer.
    """
    return f"compaction-{branch_uuid}"


class CompactionRequest(Value):
    """Starts a run. `pending` carries hints over continue-as-new, `focus_id` what is asked for with
    them. `label` and `conversation` are shown in Temporal's UI; empty where ids are not to be.
    """

    tenant: str
    branch_uuid: UUID
    policy: CompactionPolicy
    reason: Reason = "turn"
    label: str = ""
    pending: int = 1
    summary_task_queue: str = SUMMARY_TASK_QUEUE
    focus_id: UUID | None = None
    conversation: str = ""


class Spending(Value):
    """Tokens that calls of models read and wrote, failed calls among them, and what they cost in
    US dollars: None where the price of one is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    price: Decimal | None = None

    def plus(self, other: "Spending") -> "Spending":
        price = None
        if self.price is not None and other.price is not None:
            price = self.price + other.price
        return Spending(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            price=price,
        )


NOTHING_SPENT = Spending(price=Decimal(0))


class CompactNow(Value):
    """What is due when it is asked is summarized with this focus."""

    focus_id: UUID | None = None


class CompactionResult(Value):
    """What a run did: figures of its last segment; `passes`, `attempts`, `degraded` and `spending`
    are totals.

    `attempts` counts those of the summarize activity. `more`: the work goes on in another run.
    `artifacts`: how many were summarized. `paused`: what is due waits until somebody resumes.
    """

    passes: int
    checkpoint_turn: int
    tokens_before: int
    tokens_after: int
    degraded: int = 0
    from_turn: int = 0
    recipe: str = ""
    made_by: str = ""
    attempts: int = 0
    more: bool = False
    artifacts: int = 0
    paused: bool = False
    spending: Spending = Spending()


class CompactionProgress(Value):
    """Where a run stands: what the `progress` query returns."""

    phase: str
    passes: int
    checkpoint_turn: int
    requested: int
    covered: int


class TurnHint(Value):
    """A turn was committed. Only a hint: the workflow reads Postgres."""

    turn_no: int


class PlanRequest(Value):
    tenant: str
    branch_uuid: UUID
    policy: CompactionPolicy
    reason: Reason = "turn"
    focus_id: UUID | None = None


class TurnRange(Value):
    """None, where it ends before it begins."""

    from_turn: int
    to_turn: int


class NodeRange(Value):
    """A node to make: level 0 from raw turns, level k+1 from the level k nodes inside the range."""

    level: int
    from_turn: int
    to_turn: int


class Plan(Value):
    """The next segment: its leaf first, then the merges it completes. No nodes: none is due.

    `artifacts`: how many are to be summarized or indexed, those of the segment among them.
    `unindexed`: none is due, but nodes are not in the index as they are. `paused`: nothing is,
    because the branch or its tenant is paused. `recipe`: of the summarizer that is asked.
    """

    nodes: tuple[NodeRange, ...] = ()
    compaction_id: UUID | None = None
    checkpoint_turn: int = 0
    tokens_before: int = 0
    artifacts: int = 0
    paused: bool = False
    unindexed: bool = False
    recipe: str = ""

    @property
    def turns(self) -> TurnRange:
        """Those of the segment, or none after the newest checkpoint."""
        if not self.nodes:
            return TurnRange(from_turn=self.checkpoint_turn + 1, to_turn=self.checkpoint_turn)
        return TurnRange(from_turn=self.nodes[0].from_turn, to_turn=self.nodes[0].to_turn)


class ArtifactsRequest(Value):
    """A batch of those that are due with these turns. `skip`: how many failed in batches before."""

    tenant: str
    branch_uuid: UUID
    turns: TurnRange
    policy: CompactionPolicy
    compaction_id: UUID | None = None
    skip: int = 0


class ArtifactsResult(Value):
    """`failed` ones have no summary, and are tried again by the next run. `more`: another batch is
    due.
    """

    summarized: int
    degraded: int
    failed: int
    more: bool


class SummarizeRequest(Value):
    """`drafts`: nodes just made and not published yet, some of which `node` may merge.

    `anew`: a draft is made though the same input and recipe have a published node. `may_degrade`:
    the extractive summarizer stands in for one that fails for good. `summarizers`: specs of others
    than the worker's.
    """

    tenant: str
    branch_uuid: UUID
    compaction_id: UUID
    node: NodeRange
    policy: CompactionPolicy
    drafts: tuple[UUID, ...] = ()
    anew: bool = False
    may_degrade: bool = True
    summarizers: tuple[str, ...] = ()


class SummarizeResult(Value):
    """`reused`: the draft was there already, no summarizer was asked. `attempts` counts those of
    the activity. `spending`: of all its compaction's nodes so far.
    """

    summary_id: UUID
    made_by: str
    recipe: str
    degraded: bool
    reused: bool
    tokens_before: int
    tokens_after: int
    attempts: int = 1
    spending: Spending = Spending()


class CommitRequest(Value):
    """`checkpoint_turn` is the turn the plan started from: commit is a compare-and-swap on it."""

    tenant: str
    branch_uuid: UUID
    compaction_id: UUID
    checkpoint_turn: int
    summary_ids: tuple[UUID, ...]
    policy: CompactionPolicy


class CommitResult(Value):
    """`more`: another segment is due already. `spending`: of all calls for this one."""

    checkpoint_id: UUID
    checkpoint_turn: int
    tokens_before: int
    tokens_after: int
    more: bool
    spending: Spending = Spending()


class IndexRequest(Value):
    tenant: str
    branch_uuid: UUID
    from_turn: int
    to_turn: int


class OffloadParameters(Value):
    """Of a `ContextOffloadOp`, which explains and checks them."""

    context_manage_mode: OffloadMode = "auto"
    max_total_tokens: int = 20_000
    max_tool_message_tokens: int = 2_000
    group_token_threshold: int | None = None
    keep_recent_count: int | None = None
    preview_chars: int = 100
    compact_ratio_threshold: float = 0.75
    summary_role: SummaryRole = "system"
    encoding: str = "o200k_base"

    @property
    def compaction_keeps(self) -> int:
        """Messages at the end that are not compacted, at least."""
        return self.keep_recent_count or 1

    @property
    def compression_keeps(self) -> int:
        """Messages at the end that are not compressed, at least."""
        return self.keep_recent_count or 2


class OffloadRequest(Value):
    """`messages` is the handle of an artifact of the branch: messages as a JSON list. `chat_id` is
    the branch's id if it is empty.
    """

    tenant: str
    branch_uuid: UUID
    messages: str
    parameters: OffloadParameters = OffloadParameters()
    chat_id: str = ""


class OffloadedMessages(Value):
    """`messages` is the handle of what the messages are now, which may be the one that was given.

    `compacted` counts messages, `compressed` groups, `failed` what could not be stored or
    summarized and stayed as it was.
    """

    messages: str
    tokens_before: int
    tokens_after: int
    compacted: int
    compressed: int
    failed: int
    changed: bool
