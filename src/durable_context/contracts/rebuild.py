"""Replacing nodes of the summary tree, and merging what compaction left: names, requests, results.

One workflow run at a time for each branch, beside its compaction, whose turns do not wait for it.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from durable_context.contracts import (
    NOTHING_SPENT,
    SUMMARY_TASK_QUEUE,
    Spending,
    TreeReason,
)
from durable_context.models import Value
from durable_context.policy import CompactionPolicy

REBUILD_WORKFLOW = "Rebuild"
PLAN_REBUILD = "plan_rebuild"
REPLACE = "replace"


def rebuild_workflow_id(branch_uuid: UUID) -> str:
    return f"rebuild-{branch_uuid}"


class RebuildResult(Value):
    """`replaced` and `merged` count nodes, `skipped` those that could not pay, `degraded` those
    that no summarizer could make: what they were to replace stays. `left`: nodes that are still
    due, because `max_tokens` was reached or too many could not be made. `paused`: nothing is done
    until somebody resumes the branch. `reverted`: the branch was, after the run began, and what
    stands there now is left alone. `tokens_read` and `spending`: of nodes that could not be made,
    too.
    """

    replaced: int = 0
    merged: int = 0
    skipped: int = 0
    degraded: int = 0
    left: int = 0
    tokens_read: int = 0
    checkpoint_turn: int = 0
    paused: bool = False
    reverted: bool = False
    spending: Spending = NOTHING_SPENT


class RebuildRequest(Value):
    """`merge`: nodes of the frontier that pile up. `upgrade`: nodes that are degraded, made by an
    outdated recipe, or made from nodes that were replaced since. `rebuild`: all nodes of the turns.

    `to_turn` 0 is the newest checkpoint's turn. `summarizers`: specs of another chain than the
    worker's. `focus_id` finds a focus. `max_tokens`: of input of summarizers, 0 for no bound; nodes
    above what was replaced follow whatever is left of it. `since` and `begun_at`: the publication
    and the time that it began at, carried over continue-as-new with `spent` and `so_far`; nodes
    published later are done, and those that failed since are not tried again.
    """

    tenant: str
    branch_uuid: UUID
    policy: CompactionPolicy
    reason: TreeReason
    from_turn: int = 1
    to_turn: int = 0
    summarizers: tuple[str, ...] = ()
    focus_id: UUID | None = None
    max_tokens: int = 0
    since: int | None = None
    begun_at: datetime | None = None
    spent: int = 0
    so_far: RebuildResult = RebuildResult()
    label: str = ""
    summary_task_queue: str = SUMMARY_TASK_QUEUE
    conversation: str = ""


class PlannedNode(NamedTuple):
    """A node of the plan's level. `tokens`: of its input, about."""

    compaction_id: UUID
    from_turn: int
    to_turn: int
    tokens: int


class RebuildPlan(Value):
    """The next batch, of one level. No nodes: nothing is due, or with `more` another look is.

    `is_stale`: the newest checkpoint shows nodes that were replaced. `left`: nodes of this level
    and those below that are due, and not in the batch. `skipped`: nodes that could not pay, found
    by this look. `recipe`: of the summarizer that is asked.
    """

    level: int = 0
    nodes: tuple[PlannedNode, ...] = ()
    checkpoint_turn: int = 0
    since: int = 0
    begun_at: datetime | None = None
    left: int = 0
    skipped: int = 0
    more: bool = False
    is_stale: bool = False
    paused: bool = False
    reverted: bool = False
    recipe: str = ""


class ReplaceRequest(Value):
    """Publishes drafts of one level. `failed`: compactions that nobody could make a draft for.
    `since`: where the branch was reverted after that publication, nothing fits any more.
    """

    tenant: str
    branch_uuid: UUID
    policy: CompactionPolicy
    drafts: tuple[UUID, ...] = ()
    failed: tuple[UUID, ...] = ()
    since: int | None = None


class ReplaceResult(Value):
    """`replaced` and `merged` count nodes, of turns `from_turn` to `to_turn`. `spending`: on those
    that nobody could make.
    """

    checkpoint_turn: int
    replaced: int = 0
    merged: int = 0
    from_turn: int = 1
    to_turn: int = 0
    spending: Spending = NOTHING_SPENT


class RebuildProgress(Value):
    """Where a run stands, and what was asked of it: what the `progress` query returns."""

    phase: str
    request: RebuildRequest
    result: RebuildResult
    left: int
