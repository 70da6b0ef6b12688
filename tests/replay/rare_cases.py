"""Cases of what compactions seldom come to, for `tests.replay.record`."""

import asyncio
from datetime import timedelta
from typing import cast

import asyncpg
from temporalio.client import WorkflowHistory

from durable_context import Branch
from durable_context.database import Pool
from durable_context.errors import SummarizerRejected
from durable_context.summarizers import SummaryDraft, SummaryRequest
from tests.compacting import compact_all
from tests.compaction.scripted import ScriptedSummarizer
from tests.replacing import replace_node
from tests.workflows.orchestration import QUICK, Orchestration, record
from workflows.compaction import Compaction

BINARY = QUICK.model_copy(update={"fan_out": 2})


class LeavesAlone(ScriptedSummarizer):
    """It refuses to merge."""

    async def summarize(self, request: SummaryRequest) -> SummaryDraft:
        if request.level:
            raise SummarizerRejected("no")
        return await super().summarize(request)


async def replanned(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """The branch is reverted after the run has planned."""
    summarizer = ScriptedSummarizer()
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    await record(branch, 6)
    summarizer.gate.clear()
    async with at.worker(pool, summarizer):
        await at.hint(branch)
        await summarizer.arrived.wait()
        await branch.revert(6)
        summarizer.gate.set()
        await at.result(branch)
    return await at.history(branch)


async def merge_degraded(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """The first of two merges that one segment completes."""
    await record(branch, 20)
    await compact_all(pool, branch.branch_uuid, BINARY)
    await record(branch, 6)
    async with at.worker(pool, LeavesAlone()):
        await at.hint(branch, BINARY)
        await at.result(branch)
    return await at.history(branch)


async def indexed(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Nothing else is due."""
    await record(branch, 8)
    await compact_all(pool, branch.branch_uuid)
    async with pool.acquire() as acquired:
        connection = cast("asyncpg.Connection[asyncpg.Record]", acquired)
        await replace_node(connection, branch, 1, "A cormorant signed for it.")
    async with at.worker(pool):
        await at.hint(branch)
        await at.result(branch)
    return await at.history(branch)


async def asked_within(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Who asks in the middle of a run does not wait for more turns."""
    policy = QUICK.model_copy(update={"debounce": timedelta(seconds=1)})
    summarizer = ScriptedSummarizer()
    summarizer.gate.clear()
    await record(branch, 8)
    async with at.worker(pool, summarizer):
        await at.hint(branch, policy)
        await summarizer.arrived.wait()
        asked = asyncio.create_task(at.compact(branch, policy))
        while (await at.handle(branch).query(Compaction.progress)).requested < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        summarizer.gate.set()
        await asked
        await at.result(branch)
    return await at.history(branch)
