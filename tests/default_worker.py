"""Workers on the queues that clients and commands use when they are told nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.worker import Worker

from activities.compaction import CompactionActivities
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import COMPACTION_TASK_QUEUE, SUMMARY_TASK_QUEUE
from durable_context.database import Pool
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer
from workflows.compaction import Compaction
from workflows.rebuild import Rebuild


@asynccontextmanager
async def default_worker(
    temporal: Client, pool: Pool, summarizer: Summarizer | None = None
) -> AsyncIterator[None]:
    """Compacts branches of this database while it is open."""
    activities = CompactionActivities(Compactor(pool, summarizer or ExtractiveSummarizer()))
    compactions = Worker(
        temporal,
        task_queue=COMPACTION_TASK_QUEUE,
        workflows=[Compaction, Rebuild],
        activities=[
            *(activities.plan, activities.commit, activities.index),
            *(activities.plan_rebuild, activities.replace),
        ],
    )
    summaries = Worker(
        temporal,
        task_queue=SUMMARY_TASK_QUEUE,
        activities=[activities.summarize, activities.summarize_artifacts],
    )
    async with compactions, summaries:
        yield
