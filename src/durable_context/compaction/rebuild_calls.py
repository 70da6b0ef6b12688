"""What is asked of Temporal about rebuilds, by name. It imports temporalio: like `temporal_calls`
it is imported when Temporal is first needed.
"""

import contextlib
from hashlib import sha256
from typing import Any
from uuid import UUID

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import (
    Priority,
    QueryRejectCondition,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from durable_context.compaction.run_texts import attributes_of, rebuild_details, summary_text
from durable_context.compaction.search_attributes import search_attributes
from durable_context.compaction.temporal_calls import (
    LONGEST_RUN,
    fairness_key,
    unavailable,
)
from durable_context.contracts import COMPACTION_TASK_QUEUE, PROGRESS
from durable_context.contracts.rebuild import (
    REBUILD_WORKFLOW,
    RebuildProgress,
    RebuildRequest,
    RebuildResult,
    rebuild_workflow_id,
)
from durable_context.errors import CompactionFailed

ASKED = "asked"
"""In the memo of a run: a hash of what it was started with."""
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
) -> WorkflowHandle[Any, RebuildResult]:
    """Raises CompactionUnavailable, WorkflowAlreadyStartedError."""

    async def started(attributes: TypedSearchAttributes) -> WorkflowHandle[Any, RebuildResult]:
        return await client.start_workflow(
            REBUILD_WORKFLOW,
            request,
            id=rebuild_workflow_id(request.branch_uuid),
            task_queue=task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            execution_timeout=LONGEST_RUN,
            static_summary=summary_text(request.reason, request),
            static_details=rebuild_details(request),
            search_attributes=attributes,
            priority=_priority(request),
            memo={ASKED: _asked(request)},
            result_type=RebuildResult,
        )

    try:
        return await search_attributes(client).start(attributes_of(request), started)
    except (RPCError, RuntimeError) as error:
        raise unavailable(error) from error


async def rebuild_now(client: Client, request: RebuildRequest, task_queue: str) -> RebuildResult:
    """Rebuild, after whatever other rebuild of the branch is open. Unbounded: the caller cancels
    it.

    Raises CompactionUnavailable, CompactionFailed.
    """
    while True:
        try:
            return await _result(await start(client, request, task_queue))
        except WorkflowAlreadyStartedError as open_one:
            handle = _handle(client, request.branch_uuid, open_one.run_id)
            if await _is_for(handle, request):
                return await _result(handle)
            with contextlib.suppress(CompactionFailed):
                await _result(handle)


async def progress(client: Client, branch_uuid: UUID) -> RebuildProgress | None:
    """Of the open run, None if there is none. Raises CompactionUnavailable."""
    try:
        return await _handle(client, branch_uuid).query(
            PROGRESS,
            result_type=RebuildProgress,
            reject_condition=QueryRejectCondition.NOT_OPEN,
        )
    except WorkflowQueryRejectedError:
        return None
    except (RPCError, RuntimeError, WorkflowQueryFailedError) as error:
        if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise unavailable(error) from error


async def _result(handle: WorkflowHandle[Any, RebuildResult]) -> RebuildResult:
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        cause = error.cause
        reason = cause.message if isinstance(cause, ApplicationError) else repr(cause)
        raise CompactionFailed(f"the rebuild failed: {reason}") from error
    except (RPCError, RuntimeError) as error:
        raise unavailable(error) from error


def _handle(
    client: Client, branch_uuid: UUID, run_id: str | None = None
) -> WorkflowHandle[Any, RebuildResult]:
    workflow_id = rebuild_workflow_id(branch_uuid)
    return client.get_workflow_handle(workflow_id, run_id=run_id, result_type=RebuildResult)


async def _is_for(handle: WorkflowHandle[Any, RebuildResult], request: RebuildRequest) -> bool:
    """Whether that run was started by the same request."""
    try:
        description = await handle.describe()
        return await description.memo_value(ASKED, default=None) == _asked(request)
    except (RPCError, RuntimeError) as error:
        raise unavailable(error) from error


def _asked(request: RebuildRequest) -> str:
    """A hash of it."""
    return sha256(request.model_dump_json(exclude={"label", "conversation"}).encode()).hexdigest()


def _priority(request: RebuildRequest) -> Priority:
    """Somebody may wait for a rebuild; sweeps come after all else."""
    key = ASKED_FOR_PRIORITY if request.reason == "rebuild" else SWEPT_PRIORITY
    return Priority(priority_key=key, fairness_key=fairness_key(request.tenant))
