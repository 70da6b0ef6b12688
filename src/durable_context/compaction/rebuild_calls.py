"""What is asked of Temporal about rebuilds, by name. It imports temporalio: like `temporal_calls`
it is imported when Temporal is first needed.
"""

from temporalio.client import Client, WorkflowHandle
from temporalio.common import Priority, WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from durable_context.compaction.temporal_calls import (
    FAIRNESS_KEY_BYTES,
    LONGEST_RUN,
    SUMMARY_BYTES,
    unavailable,
)
from durable_context.contracts import COMPACTION_TASK_QUEUE
from durable_context.contracts.rebuild import (
    REBUILD_WORKFLOW,
    RebuildRequest,
    RebuildResult,
    rebuild_workflow_id,
)

ASKED_FOR_PRIORITY = 2
SWEPT_PRIORITY = 5


async def start_rebuild(
    client: Client, request: RebuildRequest, task_queue: str = COMPACTION_TASK_QUEUE
) -> bool:
    """Start the branch's rebuild. False: one is open already, and goes on as it is.

    Raises CompactionUnavailable.
    """
    try:
        await start(client, request, task_queue)
    except WorkflowAlreadyStartedError:
        return False
    return True


async def start(
    client: Client, request: RebuildRequest, task_queue: str
) -> WorkflowHandle[object, RebuildResult]:
    """Raises CompactionUnavailable, WorkflowAlreadyStartedError."""
    try:
        return await client.start_workflow(
            REBUILD_WORKFLOW,
            request,
            id=rebuild_workflow_id(request.branch_uuid),
            task_queue=task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            execution_timeout=LONGEST_RUN,
            static_summary=_summary(request),
            priority=_priority(request),
            result_type=RebuildResult,
        )
    except (RPCError, RuntimeError) as error:
        raise unavailable(error) from error


def _summary(request: RebuildRequest) -> str:
    text = f"{request.reason} {request.label or request.branch_uuid}"
    return text.encode()[:SUMMARY_BYTES].decode(errors="ignore")


def _priority(request: RebuildRequest) -> Priority:
    """Somebody may wait for a rebuild; sweeps come after all else."""
    key = ASKED_FOR_PRIORITY if request.reason == "rebuild" else SWEPT_PRIORITY
    fairness_key = request.tenant.encode()[:FAIRNESS_KEY_BYTES].decode(errors="ignore")
    return Priority(priority_key=key, fairness_key=fairness_key)
