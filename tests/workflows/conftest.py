"""Compaction with real workflows: a task queue per test, workers in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from durable_context import Branch, CompactionPolicy
from durable_context.compaction import Compactor
from durable_context.compaction_requests import CompactionRequests
from durable_context.contracts import (
    CompactionRequest,
    CompactionResult,
    Reason,
    compaction_workflow_id,
)
from durable_context.database import Pool
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.turns import numbered
from workflows.compaction import Compaction

QUICK = CompactionPolicy(
    debounce=timedelta(0),
    retry_interval=timedelta(milliseconds=100),
    degrade_after=timedelta(seconds=1),
    worker_lost_after=timedelta(seconds=1),
)
PATIENCE = timedelta(seconds=60)
StartWorker = Callable[..., AbstractAsyncContextManager[None]]


@dataclass
class Orchestration:
    """Temporal as one test sees it."""

    client: Client
    requests: CompactionRequests
    task_queue: str

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
        return await self.handle(branch).fetch_history()


@pytest.fixture
def task_queue() -> str:
    return f"test-{uuid4().hex}"


@pytest.fixture
async def orchestration(temporal: Client, task_queue: str) -> AsyncIterator[Orchestration]:
    requests = CompactionRequests(temporal, task_queue=task_queue)
    yield Orchestration(temporal, requests, task_queue)
    await requests.close()


@pytest.fixture
def start_worker(orchestration: Orchestration, pool: Pool) -> StartWorker:
    """A worker as in production: workflows and database steps on one queue, models on another."""

    @asynccontextmanager
    async def start(summarizer: Summarizer | None = None, **options: object) -> AsyncIterator[None]:
        activities = CompactionActivities(Compactor(pool, summarizer or ExtractiveSummarizer()))
        compaction = Worker(
            orchestration.client,
            task_queue=orchestration.task_queue,
            workflows=[Compaction],
            activities=[activities.plan, activities.commit, activities.index],
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
            **options,  # type: ignore[arg-type]
        )
        summaries = Worker(
            orchestration.client,
            task_queue=orchestration.summary_task_queue,
            activities=[activities.summarize],
        )
        async with compaction, summaries:
            yield

    return start


async def record(branch: Branch, count: int) -> None:
    head = (await branch.inspect()).head_turn
    for turn in range(head + 1, head + count + 1):
        await branch.record_turn(numbered(turn))
