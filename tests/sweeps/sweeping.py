"""Sweeps as one test sees them: a task queue and schedules of its own, workers in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowHandle
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from activities.rebuild import RebuildActivities
from activities.sweep import SweepActivities
from durable_context import Branch
from durable_context.artifacts.contents import ContentStore
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import compaction_workflow_id
from durable_context.contracts.rebuild import rebuild_workflow_id
from durable_context.contracts.sweep import (
    SWEEP_WORKFLOW,
    SweepKind,
    SweepRequest,
    SweepResult,
    schedule_id,
)
from durable_context.database import Pool
from durable_context.schedules import ScheduleSettings
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.sweeps.schedule_calls import ScheduleCalls
from durable_context.sweeps.sweeping import ONE_RUN
from tests.workflows.orchestration import QUICK
from worker.service import SANDBOX
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild
from workflows.sweep import Sweep

EVERY = timedelta(seconds=1)
AT_ONCE = timedelta(0)


class HastySettings(ScheduleSettings):
    """The time of a sweep is over when it begins."""

    def request(self, kind: SweepKind, every: timedelta) -> SweepRequest:
        return super().request(kind, every).model_copy(update={"longest": timedelta(0)})


@dataclass
class Sweeps:
    client: Client
    task_queue: str

    @property
    def schedules(self) -> ScheduleCalls:
        return ScheduleCalls(self.client, self.task_queue)

    @property
    def summary_task_queue(self) -> str:
        return f"{self.task_queue}-summaries"

    def settings(self, *often: SweepKind, **fields: Any) -> ScheduleSettings:
        """Those of the kinds come every second."""
        return ScheduleSettings(
            **{
                "policy": QUICK,
                "intervals": dict.fromkeys(often, EVERY),
                "grace": AT_ONCE,
                "summary_task_queue": self.summary_task_queue,
                **fields,
            }
        )

    @asynccontextmanager
    async def worker(
        self,
        pool: Pool,
        summarizer: Summarizer | None = None,
        contents: ContentStore | None = None,
        lasts: timedelta = ONE_RUN,
    ) -> AsyncIterator[None]:
        summarizer = summarizer or ExtractiveSummarizer()
        compactor = Compactor(pool, summarizer, contents=contents)
        activities = CompactionActivities(compactor)
        sweeps = SweepActivities(pool, summarizer.recipe, contents, lasts)
        rebuilds = RebuildActivities(compactor)
        steps = Worker(
            self.client,
            task_queue=self.task_queue,
            workflows=[Compaction, Rebuild, Sweep],
            activities=[
                *(activities.plan, activities.commit, activities.index),
                *(rebuilds.plan_rebuild, rebuilds.replace),
                sweeps.sweep,
            ],
            workflow_runner=SANDBOX,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )
        summaries = Worker(
            self.client,
            task_queue=self.summary_task_queue,
            activities=[activities.summarize, activities.summarize_artifacts],
        )
        async with steps, summaries:
            yield

    async def fired(self, kind: SweepKind, nth: int = 0) -> SweepResult:
        """Of the schedule's first sweep, or a later one (from 0), which Temporal starts by itself
        or was triggered to.
        """
        handle = self.client.get_schedule_handle(schedule_id(kind, self.task_queue))
        async with asyncio.timeout(45):
            while len(actions := (await handle.describe()).info.recent_actions) <= nth:
                pass
            action = actions[nth].action
            assert isinstance(action, ScheduleActionExecutionStartWorkflow)
            started = self.client.get_workflow_handle(action.workflow_id, result_type=SweepResult)
            return await started.result()

    async def begin(self, kind: SweepKind, **fields: Any) -> "WorkflowHandle[Any, SweepResult]":
        """A sweep that no schedule started."""
        request = SweepRequest(
            **{
                "kind": kind,
                "policy": QUICK,
                "grace": AT_ONCE,
                "summary_task_queue": self.summary_task_queue,
                **fields,
            }
        )
        return await self.client.start_workflow(
            SWEEP_WORKFLOW,
            request,
            id=f"sweep-{uuid4().hex}",
            task_queue=self.task_queue,
            result_type=SweepResult,
        )

    async def sweep(self, kind: SweepKind, **fields: Any) -> SweepResult:
        return await (await self.begin(kind, **fields)).result()

    async def compacted(self, branch: Branch) -> None:
        """The compaction that was started is over."""
        await self.client.get_workflow_handle(compaction_workflow_id(branch.branch_uuid)).result()

    async def rebuilt(self, branch: Branch) -> None:
        await self.client.get_workflow_handle(rebuild_workflow_id(branch.branch_uuid)).result()
