"""The activities of a compaction: one call of the core each."""

from temporalio import activity

from activities.errors import as_temporal_errors
from activities.heartbeats import heartbeats
from activities.rebuild import RebuildActivities
from activities.said import (
    of_artifacts,
    of_commit,
    of_node,
    of_plan,
    of_summary,
    of_turns,
)
from activities.spans import branch_step, step
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
from durable_context.telemetry import spans, steps
from durable_context.telemetry.spans import Said


class CompactionActivities(RebuildActivities):
    @activity.defn(name=PLAN)
    async def plan(self, request: PlanRequest) -> Plan:
        info = activity.info()
        by = RunId(info.workflow_id, info.workflow_run_id)
        with as_temporal_errors():
            asked: dict[str, Said] = {spans.REASON: request.reason}
            async with branch_step(steps.PLAN, self._compactor, request, asked) as span:
                plan = await self._compactor.plan(request, by)
                spans.say(span, of_plan(plan))
        return plan

    @activity.defn(name=SUMMARIZE_ARTIFACTS)
    async def summarize_artifacts(self, request: ArtifactsRequest) -> ArtifactsResult:
        info = activity.info()
        failing_for = info.current_attempt_scheduled_time - info.scheduled_time
        async with heartbeats(info.heartbeat_timeout):
            with as_temporal_errors():
                asked = of_turns(request.turns)
                name = steps.SUMMARIZE_ARTIFACTS
                async with branch_step(name, self._compactor, request, asked) as span:
                    result = await self._compactor.summarize_artifacts(
                        request, failing_for=failing_for
                    )
                    spans.say(span, of_artifacts(result))
        return result

    @activity.defn(name=SUMMARIZE)
    async def summarize(self, request: SummarizeRequest) -> SummarizeResult:
        info = activity.info()
        # Both times are the server's: no clock skew, and no wait in the queue before attempt 1.
        failing_for = info.current_attempt_scheduled_time - info.scheduled_time
        async with heartbeats(info.heartbeat_timeout):
            with as_temporal_errors():
                asked = of_node(request)
                async with branch_step(steps.SUMMARIZE, self._compactor, request, asked) as span:
                    result = await self._compactor.summarize(request, failing_for=failing_for)
                    spans.say(span, of_summary(result))
        return result.model_copy(update={"attempts": info.attempt})

    @activity.defn(name=COMMIT)
    async def commit(self, request: CommitRequest) -> CommitResult:
        with as_temporal_errors():
            asked: dict[str, Said] = {steps.COMPACTION_ID: str(request.compaction_id)}
            async with branch_step(steps.COMMIT, self._compactor, request, asked) as span:
                result = await self._compactor.commit(request)
                spans.say(span, of_commit(result))
        return result

    @activity.defn(name=INDEX)
    async def index(self, request: IndexRequest) -> None:
        turns = of_turns(request)
        with as_temporal_errors(), step(steps.INDEX, request.branch_uuid, turns):
            await self._compactor.index(request)
