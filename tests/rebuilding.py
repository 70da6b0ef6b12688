"""Rebuilds without Temporal, for tests that are about what they leave behind."""

from typing import Any
from uuid import UUID

from durable_context import CompactionPolicy
from durable_context.compaction.compactor import Compactor
from durable_context.contracts import IndexRequest, NodeRange, SummarizeRequest, TreeReason
from durable_context.contracts.rebuild import (
    PlannedNode,
    RebuildPlan,
    RebuildRequest,
    ReplaceRequest,
    ReplaceResult,
)
from durable_context.database import Pool
from durable_context.errors import StalePlan, SummarizerRejected
from durable_context.summarizers import Summarizer

POLICY = CompactionPolicy()


class RebuildSteps:
    """The steps of one branch's rebuild, as the workflow strings them together."""

    def __init__(
        self,
        pool: Pool,
        branch_uuid: UUID,
        summarizer: Summarizer,
        reason: TreeReason = "upgrade",
        policy: CompactionPolicy = POLICY,
        **options: Any,
    ) -> None:
        self.compactor = Compactor(pool, summarizer)
        self.target: dict[str, Any] = {"tenant": "default", "branch_uuid": branch_uuid}
        self.target["policy"] = policy
        self.request = RebuildRequest(**self.target, reason=reason, **options)

    async def plan(self) -> RebuildPlan:
        plan = await self.compactor.plan_rebuild(self.request)
        began = {"since": plan.since, "begun_at": plan.begun_at}
        self.request = self.request.model_copy(update=began)
        return plan

    async def make(self, plan: RebuildPlan, node: PlannedNode) -> UUID:
        asked = SummarizeRequest(
            **self.target,
            compaction_id=node.compaction_id,
            node=NodeRange(level=plan.level, from_turn=node.from_turn, to_turn=node.to_turn),
            anew=True,
            may_degrade=self.request.reason == "merge",
            summarizers=self.request.summarizers,
        )
        made = await self.compactor.summarize(asked)
        spent = self.request.spent + made.tokens_before
        self.request = self.request.model_copy(update={"spent": spent})
        return made.summary_id

    async def replace(self, *drafts: UUID) -> ReplaceResult:
        result = await self.compactor.replace(self._replacement(drafts))
        indexed = IndexRequest(
            tenant="default",
            branch_uuid=self.target["branch_uuid"],
            from_turn=result.from_turn,
            to_turn=result.to_turn,
        )
        await self.compactor.index(indexed)
        return result

    def _replacement(self, drafts: tuple[UUID, ...]) -> ReplaceRequest:
        return ReplaceRequest(**self.target, drafts=drafts, since=self.request.since)

    async def batch(self) -> RebuildPlan:
        plan = await self.plan()
        drafts: list[UUID] = []
        for node in plan.nodes:
            try:
                drafts.append(await self.make(plan, node))
            except SummarizerRejected:
                continue
        if drafts or plan.is_stale:
            await self.replace(*drafts)
        return plan

    async def all(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """Level and turns of the batches, until nothing is due."""
        batches: list[tuple[int, list[tuple[int, int]]]] = []
        while True:
            try:
                plan = await self.batch()
            except StalePlan:
                continue
            if plan.nodes:
                batches.append(
                    (plan.level, [(node.from_turn, node.to_turn) for node in plan.nodes])
                )
            elif not plan.more:
                return batches
