"""A worker in a process of its own, to be killed: `python -m tests.workflows.worker_process SETUP`.

It tells on stdout when it runs. Asked to stall at a step, it does the step, tells so, and never
acknowledges it.
"""

import asyncio
import sys
from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import (
    COMMIT,
    SUMMARIZE,
    CommitRequest,
    CommitResult,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.database import create_pool
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from tests.workflows.models import model_summarizer
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild

RUNNING = "running"
STALLED = "stalled"


class WorkerSetup(BaseModel):
    database_url: str
    temporal_address: str
    task_queue: str
    summary_task_queue: str
    model_url: str | None = None
    stall_at: str | None = None


class StallingActivities(CompactionActivities):
    """The real activities, but for the acknowledgement of one step."""

    def __init__(self, compactor: Compactor, stall_at: str | None) -> None:
        super().__init__(compactor)
        self._stall_at = stall_at

    @activity.defn(name=SUMMARIZE)
    async def summarize(self, request: SummarizeRequest) -> SummarizeResult:
        result = await super().summarize(request)
        await self._done(SUMMARIZE)
        return result

    @activity.defn(name=COMMIT)
    async def commit(self, request: CommitRequest) -> CommitResult:
        result = await super().commit(request)
        await self._done(COMMIT)
        return result

    async def _done(self, step: str) -> None:
        if step == self._stall_at:
            _tell(STALLED)
            await asyncio.Event().wait()


async def run(setup: WorkerSetup) -> None:
    client = await Client.connect(setup.temporal_address, data_converter=pydantic_data_converter)
    pool = await create_pool(setup.database_url)
    summarizer: Summarizer = ExtractiveSummarizer()
    if setup.model_url:
        summarizer = model_summarizer(setup.model_url)
    activities = StallingActivities(Compactor(pool, summarizer), setup.stall_at)
    compaction = Worker(
        client,
        task_queue=setup.task_queue,
        workflows=[Compaction, Rebuild],
        activities=[
            *(activities.plan, activities.commit, activities.index),
            *(activities.plan_rebuild, activities.replace),
        ],
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )
    summaries = Worker(
        client,
        task_queue=setup.summary_task_queue,
        activities=[activities.summarize, activities.summarize_artifacts],
    )
    async with compaction, summaries:
        _tell(RUNNING)
        await asyncio.Event().wait()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(WorkerSetup.model_validate_json(sys.argv[1])))
