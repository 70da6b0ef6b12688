"""The activities as the workflow calls them: names, timeouts and retries in one place."""

from datetime import timedelta
from uuid import UUID

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import (
        COMMIT,
        INDEX,
        PLAN,
        STALE_PLAN,
        SUMMARIZE,
        SUMMARIZE_ARTIFACTS,
        SUMMARIZER_REJECTED,
        ArtifactsRequest,
        ArtifactsResult,
        CommitRequest,
        CommitResult,
        CompactionRequest,
        IndexRequest,
        NodeRange,
        Plan,
        PlanRequest,
        SummarizeRequest,
        SummarizeResult,
        TurnRange,
    )
    from durable_context.contracts.rebuild import RebuildRequest
    from workflows.details import artifacts_text, turns_text

DATABASE_STEP_TIMEOUT = timedelta(seconds=15)
DATABASE_STEP_GIVEN_UP_AFTER = timedelta(hours=2)
DATABASE_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=[STALE_PLAN],
)
# Whatever the attempt may take, plus a margin to store the result.
SUMMARIZE_MARGIN = timedelta(seconds=30)
SUMMARIZE_GIVEN_UP_AFTER = timedelta(hours=6)
SUMMARIZE_LONGEST_INTERVAL = timedelta(minutes=5)
SUMMARIZE_ATTEMPTS = 30
# Artifacts that cannot be summarized are left, and turns are summarized with the views of them. A
# batch gives up by itself once it has failed for `degrade_after`; this is for one that cannot.
ARTIFACTS_GIVEN_UP_AFTER = timedelta(minutes=30)
# A late index costs recall, a branch that waits for it costs more: the next pass catches up.
INDEX_TIMEOUT = timedelta(seconds=60)
INDEX_GIVEN_UP_AFTER = timedelta(minutes=3)
INDEX_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=4)


async def plan(request: CompactionRequest, focus_id: UUID | None) -> Plan:
    return await workflow.execute_activity(
        PLAN,
        PlanRequest(
            tenant=request.tenant,
            branch_uuid=request.branch_uuid,
            policy=request.policy,
            reason=request.reason,
            focus_id=focus_id,
        ),
        result_type=Plan,
        start_to_close_timeout=DATABASE_STEP_TIMEOUT,
        schedule_to_close_timeout=DATABASE_STEP_GIVEN_UP_AFTER,
        retry_policy=DATABASE_RETRIES,
        summary="plan the next segment",
    )


async def summarize(
    request: CompactionRequest, compaction_id: UUID, node: NodeRange, drafts: list[UUID], text: str
) -> SummarizeResult:
    asked = SummarizeRequest(
        tenant=request.tenant,
        branch_uuid=request.branch_uuid,
        compaction_id=compaction_id,
        node=node,
        policy=request.policy,
        drafts=tuple(drafts),
    )
    return await make_node(asked, request.summary_task_queue, text)


async def make_node(asked: SummarizeRequest, task_queue: str, text: str) -> SummarizeResult:
    policy = asked.policy
    return await workflow.execute_activity(
        SUMMARIZE,
        asked,
        result_type=SummarizeResult,
        task_queue=task_queue,
        start_to_close_timeout=policy.attempt_timeout + SUMMARIZE_MARGIN,
        schedule_to_close_timeout=SUMMARIZE_GIVEN_UP_AFTER,
        heartbeat_timeout=policy.worker_lost_after,
        retry_policy=RetryPolicy(
            initial_interval=policy.retry_interval,
            maximum_interval=max(policy.retry_interval, SUMMARIZE_LONGEST_INTERVAL),
            maximum_attempts=SUMMARIZE_ATTEMPTS,
            non_retryable_error_types=[SUMMARIZER_REJECTED, STALE_PLAN],
        ),
        summary=text,
    )


async def summarize_artifacts(request: CompactionRequest, plan: Plan, skip: int) -> ArtifactsResult:
    policy = request.policy
    return await workflow.execute_activity(
        SUMMARIZE_ARTIFACTS,
        ArtifactsRequest(
            tenant=request.tenant,
            branch_uuid=request.branch_uuid,
            turns=plan.turns,
            policy=policy,
            compaction_id=plan.compaction_id,
            skip=skip,
        ),
        result_type=ArtifactsResult,
        task_queue=request.summary_task_queue,
        # Twice, because the last of a batch may begin when the time of one attempt is over.
        start_to_close_timeout=2 * policy.attempt_timeout + SUMMARIZE_MARGIN,
        schedule_to_close_timeout=policy.degrade_after
        + 2 * policy.attempt_timeout
        + ARTIFACTS_GIVEN_UP_AFTER,
        heartbeat_timeout=policy.worker_lost_after,
        retry_policy=RetryPolicy(
            initial_interval=policy.retry_interval,
            maximum_interval=max(policy.retry_interval, SUMMARIZE_LONGEST_INTERVAL),
            maximum_attempts=SUMMARIZE_ATTEMPTS,
        ),
        summary=artifacts_text(plan),
    )


async def commit(
    request: CompactionRequest, plan: Plan, compaction_id: UUID, drafts: list[UUID]
) -> CommitResult:
    return await workflow.execute_activity(
        COMMIT,
        CommitRequest(
            tenant=request.tenant,
            branch_uuid=request.branch_uuid,
            compaction_id=compaction_id,
            checkpoint_turn=plan.checkpoint_turn,
            summary_ids=tuple(drafts),
            policy=request.policy,
        ),
        result_type=CommitResult,
        start_to_close_timeout=DATABASE_STEP_TIMEOUT,
        schedule_to_close_timeout=DATABASE_STEP_GIVEN_UP_AFTER,
        retry_policy=DATABASE_RETRIES,
        summary=f"commit checkpoint {plan.nodes[0].to_turn}",
    )


async def index(request: CompactionRequest | RebuildRequest, turns: TurnRange) -> None:
    await workflow.execute_activity(
        INDEX,
        IndexRequest(
            tenant=request.tenant,
            branch_uuid=request.branch_uuid,
            from_turn=turns.from_turn,
            to_turn=turns.to_turn,
        ),
        start_to_close_timeout=INDEX_TIMEOUT,
        schedule_to_close_timeout=INDEX_GIVEN_UP_AFTER,
        retry_policy=INDEX_RETRIES,
        summary=f"index {turns_text(turns.from_turn, turns.to_turn)}",
    )
