"""The workflow a compaction is measured against: as many activities, which do nothing.

`python -m benchmarks.bare_workflow` is its worker, configured as the product's: the same runner,
one queue for workflows and database steps and one for summaries.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import NoReturn

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from worker.service import SANDBOX
from worker.settings import Settings

BARE_TASK_QUEUE = "benchmark-bare"
BARE_SUMMARY_TASK_QUEUE = "benchmark-bare-summaries"
TIMEOUT = timedelta(seconds=60)


@activity.defn
async def plan(branch: str) -> int:
    return 1


@activity.defn
async def summarize(branch: str) -> int:
    return 1


@activity.defn
async def commit(branch: str) -> int:
    return 1


@activity.defn
async def index(branch: str) -> int:
    return 1


@workflow.defn
class Bare:
    @workflow.run
    async def run(self, branch: str) -> int:
        await workflow.execute_activity(plan, branch, start_to_close_timeout=TIMEOUT)
        await workflow.execute_activity(
            summarize,
            branch,
            task_queue=BARE_SUMMARY_TASK_QUEUE,
            start_to_close_timeout=TIMEOUT,
        )
        await workflow.execute_activity(commit, branch, start_to_close_timeout=TIMEOUT)
        return await workflow.execute_activity(index, branch, start_to_close_timeout=TIMEOUT)


async def work(settings: Settings) -> None:
    client = await Client.connect(**settings.temporal, data_converter=pydantic_data_converter)
    workflows = Worker(
        client,
        task_queue=BARE_TASK_QUEUE,
        workflows=[Bare],
        activities=[plan, commit, index],
        workflow_runner=SANDBOX,
        max_concurrent_workflow_tasks=settings.tuning.max_workflow_tasks,
        max_concurrent_activities=settings.tuning.max_activities,
    )
    summaries = Worker(
        client,
        task_queue=BARE_SUMMARY_TASK_QUEUE,
        activities=[summarize],
        max_concurrent_activities=settings.tuning.max_summaries,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with workflows, summaries:
        await stop.wait()


def main() -> NoReturn:
    asyncio.run(work(Settings.from_env(os.environ)))
    sys.stderr.flush()
    os._exit(0)  # an interpreter that ran workers may abort in its own shutdown


if __name__ == "__main__":
    main()
