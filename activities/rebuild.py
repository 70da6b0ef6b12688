"""The activities of a rebuild that are its own: one call of the core each."""

from temporalio import activity

from activities.errors import as_temporal_errors
from activities.said import of_rebuild_plan, of_replacement
from activities.spans import branch_step
from durable_context.compaction.compactor import Compactor
from durable_context.compaction.store import RunId
from durable_context.contracts.rebuild import (
    PLAN_REBUILD,
    REPLACE,
    RebuildPlan,
    RebuildRequest,
    ReplaceRequest,
    ReplaceResult,
)
from durable_context.telemetry import spans, steps
from durable_context.telemetry.spans import Said


class RebuildActivities:
    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor

    @activity.defn(name=PLAN_REBUILD)
    async def plan_rebuild(self, request: RebuildRequest) -> RebuildPlan:
        info = activity.info()
        by = RunId(info.workflow_id, info.workflow_run_id)
        with as_temporal_errors():
            asked: dict[str, Said] = {spans.REASON: request.reason}
            async with branch_step(steps.PLAN_REBUILD, self._compactor, request, asked) as span:
                plan = await self._compactor.plan_rebuild(request, by)
                spans.say(span, of_rebuild_plan(plan))
        return plan

    @activity.defn(name=REPLACE)
    async def replace(self, request: ReplaceRequest) -> ReplaceResult:
        with as_temporal_errors():
            asked: dict[str, Said] = {steps.FAILED: len(request.failed)}
            async with branch_step(steps.REPLACE, self._compactor, request, asked) as span:
                result = await self._compactor.replace(request)
                spans.say(span, of_replacement(result))
        return result
