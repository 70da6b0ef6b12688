"""A worker in a process of its own, to be killed: `python -m tests.offload.offload_worker SETUP`.

It tells on stdout when it runs, and when it stalls: at the first summary, or when all is done.
"""

import asyncio
import sys
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from activities.offload import OffloadActivities
    from durable_context.contracts import OFFLOAD_CONTEXT, OffloadedMessages, OffloadRequest
    from durable_context.database import create_pool
    from durable_context.offload.durable import DurableOffload
    from durable_context.summarizers import SummaryDraft, SummaryRequest
    from durable_context.summarizers.extractive import ExtractiveSummarizer

RUNNING = "running"
STALLED = "stalled"


@workflow.defn(name="OffloadOnce")
class OffloadOnce:
    """A workflow of a caller's."""

    @workflow.run
    async def run(self, request: OffloadRequest, task_queue: str) -> OffloadedMessages:
        return await workflow.execute_activity(
            OFFLOAD_CONTEXT,
            request,
            task_queue=task_queue,
            result_type=OffloadedMessages,
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=1),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
        )


class OffloadSetup(BaseModel):
    database_url: str
    temporal_address: str
    task_queue: str
    stall_at: Literal["summary", "end"]


class StallingSummarizer(ExtractiveSummarizer):
    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        await _stall()
        return await super().summarize(request)


class StallingActivities(OffloadActivities):
    """The real one, but for its acknowledgement."""

    @activity.defn(name=OFFLOAD_CONTEXT)
    async def offload(self, request: OffloadRequest) -> OffloadedMessages:
        result = await super().offload(request)
        await _stall()
        return result


async def run(setup: OffloadSetup) -> None:
    client = await Client.connect(setup.temporal_address, data_converter=pydantic_data_converter)
    pool = await create_pool(setup.database_url)
    stalls = setup.stall_at == "summary"
    summarizer = StallingSummarizer() if stalls else ExtractiveSummarizer()
    kind = OffloadActivities if stalls else StallingActivities
    activities = kind(DurableOffload(pool, summarizer))
    async with Worker(client, task_queue=setup.task_queue, activities=[activities.offload]):
        _tell(RUNNING)
        await asyncio.Event().wait()


async def _stall() -> None:
    _tell(STALLED)
    await asyncio.Event().wait()


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(run(OffloadSetup.model_validate_json(sys.argv[1])))
