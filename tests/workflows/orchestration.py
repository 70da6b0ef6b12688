"""Compaction with real workflows: requests, workers in this process, histories."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from durable_context import Branch, CompactionPolicy, ContextClient
from durable_context.artifacts.contents import ContentStore
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.requests import CompactionRequests
from durable_context.contracts import (
    CompactionRequest,
    CompactionResult,
    Reason,
    compaction_workflow_id,
)
from durable_context.database import Pool
from durable_context.resources import Resources
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.turns import numbered
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild

QUICK = CompactionPolicy(
    debounce=timedelta(0),
    retry_interval=timedelta(milliseconds=100),
    degrade_after=timedelta(seconds=1),
    worker_lost_after=timedelta(seconds=1),
)
PATIENCE = timedelta(seconds=60)
StartWorker = Callable[..., AbstractAsyncContextManager[None]]
"""Of a summarizer and options of the worker for workflows."""


@dataclass
class Orchestration:
    """Temporal as one test sees it."""

    client: Client
    requests: CompactionRequests
    task_queue: str

    @asynccontextmanager
    async def worker(
        self,
        pool: Pool,
        summarizer: Summarizer | None = None,
        *,
        contents: ContentStore | None = None,
        kind: type[CompactionActivities] = CompactionActivities,
        **options: Any,
    ) -> AsyncIterator[None]:
        """As in production: workflows and database steps on one queue, models on another."""
        summarizer = summarizer or ExtractiveSummarizer()
        activities = kind(Compactor(pool, summarizer, contents=contents))
        compaction = Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[Compaction, Rebuild],
            activities=[
                *(activities.plan, activities.commit, activities.index),
                *(activities.plan_rebuild, activities.replace),
            ],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            **options,
        )
        summaries = Worker(
            self.client,
            task_queue=self.summary_task_queue,
            activities=[activities.summarize, activities.summarize_artifacts],
        )
        async with compaction, summaries:
            yield

    @property
    def summary_task_queue(self) -> str:
        return f"{self.task_queue}-summaries"

    def request(
        self, branch: Branch, policy: CompactionPolicy = QUICK, reason: Reason = "turn"
    ) -> CompactionRequest:
        return CompactionRequest(
            tenant="default",
            branch_uuid=branch.branch_uuid,
            policy=policy,
            reason=reason,
            summary_task_queue=self.summary_task_queue,
        )

    def asking(
        self,
        client: ContextClient,
        branch: Branch,
        policy: CompactionPolicy = QUICK,
        requests: CompactionRequests | None = None,
    ) -> Branch:
        """The branch, as a client holds it whose compactions are the test's own."""
        shared = client._resources._replace(requests=requests or self.requests)
        return _Asking(shared, branch, policy, self.summary_task_queue)

    async def hint(self, branch: Branch, policy: CompactionPolicy = QUICK) -> bool:
        head = (await branch.inspect()).head_turn
        return await self.requests.hint(self.request(branch, policy), head, policy.debounce)

    async def compact(self, branch: Branch, policy: CompactionPolicy = QUICK) -> CompactionResult:
        return await self.requests.compact_now(self.request(branch, policy, "request"), PATIENCE)

    def handle(self, branch: Branch) -> "WorkflowHandle[Compaction, CompactionResult]":
        return self.client.get_workflow_handle_for(
            Compaction.run, compaction_workflow_id(branch.branch_uuid)
        )

    async def result(self, branch: Branch) -> CompactionResult:
        return await self.handle(branch).result()

    async def history(self, branch: Branch) -> WorkflowHistory:
        """Of the newest run."""
        return await self.handle(branch).fetch_history()

    async def chain(self, branch: Branch) -> list[WorkflowHistory]:
        """Of the newest run and those it continues, newest first."""
        workflow_id, runs = compaction_workflow_id(branch.branch_uuid), [await self.history(branch)]
        while earlier := _continued(runs[-1]):
            handle = self.client.get_workflow_handle(workflow_id, run_id=earlier)
            runs.append(await handle.fetch_history())
        return runs


class _Asking(Branch):
    """Its compactions summarize on the test's own queue."""

    def __init__(
        self, shared: Resources, branch: Branch, policy: CompactionPolicy, queue: str
    ) -> None:
        super().__init__(shared, branch.conversation_id, branch.branch_id, branch._row, policy)
        self._queue = queue

    def _request(self, reason: Literal["turn", "request"]) -> CompactionRequest:
        request = super()._request(reason)
        return request.model_copy(update={"summary_task_queue": self._queue})


def events_of(history: WorkflowHistory, name: str) -> list[HistoryEvent]:
    """Those of one type, such as TIMER_STARTED."""
    kind = EventType.Value(f"EVENT_TYPE_{name}")
    return [event for event in history.events if event.event_type == kind]


def _continued(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id


async def record(branch: Branch, count: int) -> None:
    head = (await branch.inspect()).head_turn
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))
