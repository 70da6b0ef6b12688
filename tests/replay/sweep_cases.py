"""Cases of sweeps, for `tests.replay.record`."""

from datetime import timedelta

from temporalio.client import WorkflowHistory

from durable_context import Branch
from durable_context.database import Pool
from tests.sweeps.sweeping import Sweeps
from tests.workflows.orchestration import QUICK, Orchestration, record

TENANTS = 101
"""One more than a run takes, when each step is over after one of them."""
_MANY_TENANTS = """
insert into durable_context.tenants (tenant)
select 'tenant-' || n from generate_series(1, $1) n on conflict do nothing
"""


async def swept(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """One branch lags behind."""
    await record(branch, QUICK.segment_turns + QUICK.keep_raw_turns)
    sweeps = Sweeps(at.client, at.task_queue)
    async with sweeps.worker(pool):
        begun = await sweeps.begin("catch-up", tenant="default")
        await begun.result()
    return await begun.fetch_history()


async def swept_on(at: Orchestration, pool: Pool, branch: Branch) -> WorkflowHistory:
    """Continued as new after the steps of one run."""
    await pool.execute(_MANY_TENANTS, TENANTS)
    sweeps = Sweeps(at.client, at.task_queue)
    async with sweeps.worker(pool, lasts=timedelta(0)):
        begun = await sweeps.begin("retention")
        await begun.result()
    run_id = begun.first_execution_run_id
    return await at.client.get_workflow_handle(begun.id, run_id=run_id).fetch_history()
