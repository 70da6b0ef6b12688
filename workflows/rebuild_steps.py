"""The activities of a rebuild as its workflow calls them; what it shares with a compaction is in
`steps`.
"""

from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import NodeRange, SummarizeRequest, SummarizeResult
    from durable_context.contracts.rebuild import (
        PLAN_REBUILD,
        REPLACE,
        PlannedNode,
        RebuildPlan,
        RebuildRequest,
        ReplaceRequest,
        ReplaceResult,
    )
    from workflows import steps
    from workflows.tree_details import node_text


async def plan(request: RebuildRequest) -> RebuildPlan:
    return await workflow.execute_activity(
        PLAN_REBUILD,
        request,
        result_type=RebuildPlan,
        start_to_close_timeout=steps.DATABASE_STEP_TIMEOUT,
        schedule_to_close_timeout=steps.DATABASE_STEP_GIVEN_UP_AFTER,
        retry_policy=steps.DATABASE_RETRIES,
        summary="plan the next batch",
    )


async def make(request: RebuildRequest, plan: RebuildPlan, planned: PlannedNode) -> SummarizeResult:
    """A merge may degrade, which is better than none. What there is already is not replaced by
    less.
    """
    node = NodeRange(level=plan.level, from_turn=planned.from_turn, to_turn=planned.to_turn)
    asked = SummarizeRequest(
        tenant=request.tenant,
        branch_uuid=request.branch_uuid,
        compaction_id=planned.compaction_id,
        node=node,
        policy=request.policy,
        anew=True,
        may_degrade=request.reason == "merge",
        summarizers=request.summarizers,
    )
    text = node_text(node, plan.recipe, planned.tokens)
    return await steps.make_node(asked, request.summary_task_queue, text)


async def replace(request: RebuildRequest, drafts: list[UUID], failed: list[UUID]) -> ReplaceResult:
    return await workflow.execute_activity(
        REPLACE,
        ReplaceRequest(
            tenant=request.tenant,
            branch_uuid=request.branch_uuid,
            policy=request.policy,
            drafts=tuple(drafts),
            failed=tuple(failed),
            since=request.since,
        ),
        result_type=ReplaceResult,
        start_to_close_timeout=steps.DATABASE_STEP_TIMEOUT,
        schedule_to_close_timeout=steps.DATABASE_STEP_GIVEN_UP_AFTER,
        retry_policy=steps.DATABASE_RETRIES,
        summary=f"publish {len(drafts)} nodes",
    )
