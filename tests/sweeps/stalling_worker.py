"""A worker of sweeps in a process of its own, to be killed: `python -m tests.sweeps.stalling_worker
SETUP`. It starts what is due for so many branches, and then nothing more.
"""

import asyncio
import sys
from datetime import timedelta

from pydantic import BaseModel
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from activities.sweep import SweepActivities
from durable_context.database import create_pool
from durable_context.sweeps import sweep
from durable_context.sweeps.paging import DueBranch
from durable_context.sweeps.starting import HintedCompactions, Outcome
from worker.service import SANDBOX
from workflows.compaction import Compaction
from workflows.sweep import Sweep


class SweepWorkerSetup(BaseModel):
    database_url: str
    temporal_address: str
    task_queue: str
    stall_after: int


class StallingHints(HintedCompactions):
    left = 0

    async def __call__(self, branch: DueBranch) -> Outcome:
        if not StallingHints.left:
            await asyncio.Event().wait()
        StallingHints.left -= 1
        return await super().__call__(branch)


async def run(setup: SweepWorkerSetup) -> None:
    client = await Client.connect(setup.temporal_address, data_converter=pydantic_data_converter)
    pool = await create_pool(setup.database_url)
    StallingHints.left = setup.stall_after
    sweep.HintedCompactions = StallingHints
    worker = Worker(
        client,
        task_queue=setup.task_queue,
        workflows=[Compaction, Sweep],
        activities=[SweepActivities(pool, "extractive/1").sweep],
        workflow_runner=SANDBOX,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )
    async with worker:
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(SweepWorkerSetup.model_validate_json(sys.argv[1])))
