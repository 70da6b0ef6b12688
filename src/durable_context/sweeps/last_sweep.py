"""How the newest sweep of a schedule ended."""

from datetime import datetime
from typing import NamedTuple

from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleInfo,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.service import RPCError, RPCStatusCode

from durable_context.contracts.sweep import SweepResult

LONGEST_ERROR = 300


class LastSweep(NamedTuple):
    """`status`: "running", "completed", "failed" and so on, "forgotten" where Temporal's retention
    took it. All None: there was none.
    """

    at: datetime | None = None
    status: str | None = None
    result: SweepResult | None = None
    error: str | None = None


async def last_sweep(client: Client, info: ScheduleInfo) -> LastSweep:
    if not info.recent_actions:
        return LastSweep()
    newest = info.recent_actions[-1]
    action = newest.action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    handle = client.get_workflow_handle(action.workflow_id, result_type=SweepResult)
    try:
        status = (await handle.describe()).status
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return LastSweep(newest.started_at, "forgotten")
    if status is None or status == WorkflowExecutionStatus.RUNNING:
        return LastSweep(newest.started_at, "running")
    name = status.name.lower()
    try:
        return LastSweep(newest.started_at, name, await handle.result())
    except WorkflowFailureError as error:
        return LastSweep(newest.started_at, name, error=str(error.cause)[:LONGEST_ERROR])
