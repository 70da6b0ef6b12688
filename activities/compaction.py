"""The activities of a compaction: one call of the core each."""

from temporalio import activity

from activities.errors import as_temporal_errors
from activities.heartbeats import heartbeats
from activities.rebuild import RebuildActivities
from durable_context.compaction.store import RunId
from durable_context.contracts import (
    COMMIT,
    INDEX,
    PLAN,
    SUMMARIZE,
    SUMMARIZE_ARTIFACTS,
    ArtifactsRequest,
    ArtifactsResult,
    CommitRequest,
    CommitResult,
    IndexRequest,
    Plan,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)


class CompactionActivities(RebuildActivities):
    @activity.defn(name=PLAN)
    async def plan(self, request: PlanRequest) -> Plan:
        info = activity.info()
        with as_temporal_errors():
            return await self._compactor.plan(
                request, RunId(info.workflow_id, info.workflow_run_id)
            )

    @activity.defn(name=SUMMARIZE_ARTIFACTS)
    async def summarize_artifacts(self, request: ArtifactsRequest) -> ArtifactsResult:
        info = activity.info()
        failing_for = info.current_attempt_scheduled_time - info.scheduled_time
        async with heartbeats(info.heartbeat_timeout):
            with as_temporal_errors():
                return await self._compactor.summarize_artifacts(request, failing_for=failing_for)

    @activity.defn(name=SUMMARIZE)
    async def summarize(self, request: SummarizeRequest) -> SummarizeResult:
        info = activity.info()
        # Both times are the server's: no clock skew, and no wait in the queue before attempt 1.
        failing_for = info.current_attempt_scheduled_time - info.scheduled_time
        async with heartbeats(info.heartbeat_timeout):
            with as_temporal_errors():
                result = await self._compactor.summarize(request, failing_for=failing_for)
        return result.model_copy(update={"attempts": info.attempt})

    @activity.defn(name=COMMIT)
    async def commit(self, request: CommitRequest) -> CommitResult:
        with as_temporal_errors():
            return await self._compactor.commit(request)

    @activity.defn(name=INDEX)
    async def index(self, request: IndexRequest) -> None:
        with as_temporal_errors():
            await self._compactor.index(request)
