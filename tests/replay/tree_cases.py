"""Cases of rebuilds, for `tests.replay.record`."""

from temporalio.client import WorkflowHistory

from durable_context import Branch
from durable_context.contracts.rebuild import rebuild_workflow_id
from durable_context.database import Pool
from durable_context.errors import SummarizerUnavailable
from tests.compaction.scripted import ScriptedSummarizer
from tests.compaction.told import Told
from tests.workflows.orchestration import Orchestration
from tests.workflows.test_rebuild import Rebuilds, degraded


async def rebuilt(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Seven nodes on three levels are made anew."""
    await degraded(branch, pool, 25)
    async with at.worker(pool, Told()):
        await Rebuilds(at, branch).run()
    return await _history(at, branch)


async def rebuilt_in_vain(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """No summarizer can make any of them."""
    await degraded(branch, pool, 25)
    broken = ScriptedSummarizer(*[SummarizerUnavailable("no")] * 90, recipe="told/1")
    async with at.worker(pool, broken):
        await Rebuilds(at, branch).run()
    return await _history(at, branch)


async def _history(at: Orchestration, branch: Branch) -> WorkflowHistory:
    workflow_id = rebuild_workflow_id(branch.branch_uuid)
    return await at.client.get_workflow_handle(workflow_id).fetch_history()
