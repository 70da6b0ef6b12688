"""Compaction without Temporal, for tests that are about what it leaves behind."""

from uuid import UUID

from durable_context import CompactionPolicy
from durable_context.compaction import Compactor
from durable_context.contracts import (
    CommitRequest,
    IndexRequest,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.database import Pool
from durable_context.summarizers.extractive import ExtractiveSummarizer


async def compact_once(
    pool: Pool, branch_uuid: UUID, policy: CompactionPolicy, tenant: str = "default"
) -> bool:
    """One pass as the workflow does it. False if nothing was due."""
    compactor = Compactor(pool, ExtractiveSummarizer())
    target = {"tenant": tenant, "branch_uuid": branch_uuid}
    plan = await compactor.plan(PlanRequest(**target, policy=policy))
    if not plan.nodes or plan.compaction_id is None:
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
    leaf = plan.nodes[0]
    await compactor.index(IndexRequest(**target, from_turn=leaf.from_turn, to_turn=leaf.to_turn))
    return True


async def compact_all(pool: Pool, branch_uuid: UUID, policy: CompactionPolicy | None = None) -> int:
    """Passes until nothing is due; how many there were."""
    policy = policy or CompactionPolicy()
    passes = 0
    while await compact_once(pool, branch_uuid, policy):
        passes += 1
    return passes
