"""Compaction without Temporal, for tests that are about what it leaves behind."""

from typing import Any
from uuid import UUID

from durable_context import CompactionPolicy
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import (
    ArtifactsRequest,
    CommitRequest,
    IndexRequest,
    Plan,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.database import Pool
from durable_context.summarizers import Summarizer
from durable_context.summarizers.extractive import ExtractiveSummarizer


async def compact_once(
    pool: Pool,
    branch_uuid: UUID,
    policy: CompactionPolicy,
    tenant: str = "default",
    summarizer: Summarizer | None = None,
) -> bool:
    """One pass as the workflow does it. False if no segment was due."""
    compactor = Compactor(pool, summarizer or ExtractiveSummarizer())
    target: dict[str, Any] = {"tenant": tenant, "branch_uuid": branch_uuid}
    plan = await compactor.plan(PlanRequest(**target, policy=policy))
    index = IndexRequest(**target, **plan.turns.model_dump())
    if plan.artifacts:
        await _summarize_artifacts(compactor, target, plan, policy)
    if not plan.nodes or plan.compaction_id is None:
        await compactor.index(index)
        return False
    made: list[SummarizeResult] = []
    for node in plan.nodes:
        request = SummarizeRequest(
            **target,
            compaction_id=plan.compaction_id,
            node=node,
            policy=policy,
            drafts=tuple(summary.summary_id for summary in made),
        )
        made.append(await compactor.summarize(request))
    await compactor.commit(
        CommitRequest(
            **target,
            compaction_id=plan.compaction_id,
            checkpoint_turn=plan.checkpoint_turn,
            summary_ids=tuple(summary.summary_id for summary in made),
            policy=policy,
        )
    )
    await compactor.index(index)
    return True


async def _summarize_artifacts(
    compactor: Compactor, target: dict[str, Any], plan: Plan, policy: CompactionPolicy
) -> None:
    request = ArtifactsRequest(
        **target, turns=plan.turns, policy=policy, compaction_id=plan.compaction_id
    )
    while (await compactor.summarize_artifacts(request)).more:
        pass


async def compact_all(
    pool: Pool,
    branch_uuid: UUID,
    policy: CompactionPolicy | None = None,
    summarizer: Summarizer | None = None,
) -> int:
    """Passes until nothing is due; how many there were."""
    policy = policy or CompactionPolicy()
    passes = 0
    while await compact_once(pool, branch_uuid, policy, summarizer=summarizer):
        passes += 1
    return passes
