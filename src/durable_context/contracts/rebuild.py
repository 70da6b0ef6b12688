"""Replacing nodes of the summary tree, and merging what compaction left: names, requests, results.

One workflow run at a time for each branch, beside its compaction, whose turns do not wait for it.
"""

from uuid import UUID

from durable_context.contracts import SUMMARY_TASK_QUEUE, TreeReason
from durable_context.models import Value
from durable_context.policy import CompactionPolicy

REBUILD_WORKFLOW = "Rebuild"
PLAN_REBUILD = "plan_rebuild"
REPLACE = "replace"


def rebuild_workflow_id(branch_uuid: UUID) -> str:
    return f"rebuild-{branch_uuid}"


class RebuildRequest(Value):
    """`merge`: nodes of the frontier that pile up. `upgrade`: nodes that are degraded, made by an
    outdated recipe, or made from nodes that were replaced since. `rebuild`: all nodes of the turns.

    `to_turn` 0 is the newest checkpoint's turn. `summarizers`: specs of another chain than the
    worker's. `focus_id`: the compaction whose row holds a focus. `max_tokens`: of input of
    summarizers, 0 for no bound. `since`: the publication that a rebuild began at, carried over
    continue-as-new with `spent`; nodes published later are done.
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
    spent: int = 0
    label: str = ""
    summary_task_queue: str = SUMMARY_TASK_QUEUE


class RebuildResult(Value):
    """`replaced` and `merged` count nodes, `skipped` those that could not pay. `left`: nodes that
    are still due, because `max_tokens` was reached.
    """

    replaced: int = 0
    merged: int = 0
    skipped: int = 0
    degraded: int = 0
    left: int = 0
    tokens_read: int = 0
    checkpoint_turn: int = 0
