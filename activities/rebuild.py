"""The activities of a rebuild that are its own: one call of the core each."""

from temporalio import activity

from activities.errors import as_temporal_errors
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


class RebuildActivities:
    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor

    @activity.defn(name=PLAN_REBUILD)
    async def plan_rebuild(self, request: RebuildRequest) -> RebuildPlan:
        info = activity.info()
        by = RunId(info.workflow_id, info.workflow_run_id)
        with as_temporal_errors():
            return await self._compactor.plan_rebuild(request, by)

    @activity.defn(name=REPLACE)
    async def replace(self, request: ReplaceRequest) -> ReplaceResult:
        with as_temporal_errors():
            return await self._compactor.replace(request)
