"""What the library asks of Temporal, by name: the only module that imports temporalio, and itself
imported only when Temporal is first needed.
"""

import asyncio
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import UUID

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    Priority,
    QueryRejectCondition,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from durable_context.compaction.bounds import retrieve
from durable_context.compaction.run_texts import (
    attributes_of,
    compaction_details,
    summary_text,
)
from durable_context.compaction.search_attributes import search_attributes
from durable_context.contracts import (
    COMPACT_NOW,
    COMPACTION_FAILED,
    COMPACTION_WORKFLOW,
    PROGRESS,
    TURN_COMMITTED,
    CompactionProgress,
    CompactionRequest,
    CompactionResult,
    CompactNow,
    Reason,
    TurnHint,
    compaction_workflow_id,
)
from durable_context.errors import CompactionFailed, CompactionTimeout, CompactionUnavailable
from durable_context.telemetry.temporal import interceptors

LOCAL_ADDRESS = "localhost:7233"
LONGEST_RUN = timedelta(hours=24)
PRIORITIES: dict[Reason, int] = {"request": 1, "turn": 3, "sweep": 5}
REACHED_WITHIN = timedelta(seconds=5)
# A run that is about to close, or to go on as another, refuses updates for a moment.
CLOSING = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.ABORTED)
CLOSING_PAUSE = 0.1
CLOSING_ATTEMPTS = 50


async def connect(address: str | None) -> Client:
    """A client that connects with its first call. What `address` leaves open comes from Temporal's
    own environment configuration.
    """
    config = await asyncio.to_thread(ClientConfig.load_client_connect_config)
    config["target_host"] = address or config.get("target_host") or LOCAL_ADDRESS
    return await Client.connect(
        **config,
        data_converter=pydantic_data_converter,
        interceptors=await asyncio.to_thread(interceptors),  # which imports for a moment
        lazy=True,
    )


class CompactionCalls:
    """Starts, signals and updates the compaction workflow of a branch."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    @property
    def client(self) -> Client:
        return self._client

    async def check(self) -> None:
        """Raises CompactionUnavailable at once where a call would retry for seconds."""
        try:
            await self._client.service_client.check_health(timeout=REACHED_WITHIN)
        except (RPCError, RuntimeError) as error:
            raise unavailable(error) from error

    async def hint(self, request: CompactionRequest, turn_no: int, debounce: timedelta) -> bool:
        """Signal the open run, or start one after `debounce`: then it is True.

        Signal-with-start on an open run that waits out its delay would end the delay, so that it
        comes second. Raises CompactionUnavailable.
        """
        workflow_id = compaction_workflow_id(request.branch_uuid)
        hint = TurnHint(turn_no=turn_no)
        try:
            await self._client.get_workflow_handle(workflow_id).signal(TURN_COMMITTED, hint)
        except (RPCError, RuntimeError) as error:
            if not (isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND):
                raise unavailable(error) from error
            await self._start(request, hint, debounce)
            return True
        return False

    async def compact_now(self, request: CompactionRequest) -> CompactionResult:
        """Compact what is due, in the open run or a new one, with the request's focus if it has
        one. Unbounded: the caller cancels it.

        Raises CompactionUnavailable, CompactionTimeout, CompactionFailed.
        """
        for _ in range(CLOSING_ATTEMPTS):
            try:
                return await search_attributes(self._client).start(
                    attributes_of(request), partial(self._update, request)
                )
            except WorkflowUpdateFailedError as error:
                if not _was_closed(error):
                    raise _failed(error) from error
            except WorkflowUpdateRPCTimeoutOrCancelledError as error:
                raise CompactionTimeout from error
            except (RPCError, RuntimeError) as error:
                if not (isinstance(error, RPCError) and error.status in CLOSING):
                    raise unavailable(error) from error
            await asyncio.sleep(CLOSING_PAUSE)
        raise CompactionUnavailable("the compaction workflow refused every request")

    async def progress(self, branch_uuid: UUID) -> CompactionProgress | None:
        """Of the open run, None if there is none. Raises CompactionUnavailable."""
        handle = self._client.get_workflow_handle(compaction_workflow_id(branch_uuid))
        try:
            return await handle.query(
                PROGRESS,
                result_type=CompactionProgress,
                reject_condition=QueryRejectCondition.NOT_OPEN,
            )
        except WorkflowQueryRejectedError:
            return None
        except (RPCError, RuntimeError, WorkflowQueryFailedError) as error:
            raise unavailable(error) from error

    async def _start(self, request: CompactionRequest, hint: TurnHint, debounce: timedelta) -> None:
        async def start(attributes: TypedSearchAttributes) -> None:
            await self._client.start_workflow(
                COMPACTION_WORKFLOW,
                request,
                id=compaction_workflow_id(request.branch_uuid),
                task_queue=self._task_queue,
                start_delay=debounce or None,
                start_signal=TURN_COMMITTED,
                start_signal_args=[hint],
                execution_timeout=LONGEST_RUN,
                static_summary=summary_text("compact", request),
                static_details=compaction_details(request),
                search_attributes=attributes,
                priority=_priority(request),
            )

        try:
            await search_attributes(self._client).start(attributes_of(request), start)
        except (RPCError, RuntimeError) as error:
            raise unavailable(error) from error

    async def _update(
        self, request: CompactionRequest, attributes: TypedSearchAttributes
    ) -> CompactionResult:
        start: WithStartWorkflowOperation[Any, CompactionResult] = WithStartWorkflowOperation(
            COMPACTION_WORKFLOW,
            request,
            id=compaction_workflow_id(request.branch_uuid),
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            execution_timeout=LONGEST_RUN,
            static_summary=summary_text("compact", request),
            static_details=compaction_details(request),
            search_attributes=attributes,
            priority=_priority(request),
        )
        focus_id = request.focus_id
        try:
            return await self._client.execute_update_with_start_workflow(  # pyright: ignore[reportUnknownMemberType]
                COMPACT_NOW,
                args=[CompactNow(focus_id=focus_id)] if focus_id else [],
                start_workflow_operation=start,
                result_type=CompactionResult,
            )
        except BaseException:
            # The SDK gives the same error to a future of its own, which complains if nobody looks.
            asyncio.ensure_future(start.workflow_handle()).add_done_callback(retrieve)
            raise


def _priority(request: CompactionRequest) -> Priority:
    return Priority(
        priority_key=PRIORITIES[request.reason], fairness_key=fairness_key(request.tenant)
    )


def fairness_key(tenant: str) -> str:
    """One for each tenant, which no history tells the name of. Temporal allows 64 bytes."""
    return sha256(tenant.encode()).hexdigest()[:32]


def _was_closed(error: WorkflowUpdateFailedError) -> bool:
    """The run ended between accepting the update and answering it."""
    cause = error.cause
    return isinstance(cause, ApplicationError) and cause.type == "AcceptedUpdateCompletedWorkflow"


def _failed(error: WorkflowUpdateFailedError) -> CompactionFailed:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == COMPACTION_FAILED:
        return CompactionFailed(f"the compaction failed: {cause.message}")
    return CompactionFailed(f"the compaction failed: {cause!r}")


def unavailable(error: Exception) -> CompactionUnavailable:
    return CompactionUnavailable(f"Temporal could not be asked: {error}")
