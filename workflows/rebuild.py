"""Makes nodes of one branch's summary tree anew, or merges them, batch by batch until nothing is
due. Each batch is published at once, beside what compaction publishes of new turns.

All state is in PostgreSQL. What the run holds is what was asked of it, and figures.
"""

import asyncio
from typing import NamedTuple
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import (
        COMPACTION_FAILED,
        NOTHING_SPENT,
        PROGRESS,
        STALE_PLAN,
        Spending,
        SummarizeResult,
        TurnRange,
    )
    from durable_context.contracts.rebuild import (
        REBUILD_WORKFLOW,
        PlannedNode,
        RebuildPlan,
        RebuildProgress,
        RebuildRequest,
        RebuildResult,
        ReplaceResult,
    )
    from workflows import rebuild_steps, steps
    from workflows.details import reason_of, type_of
    from workflows.tree_details import rebuild_details

AT_ONCE = 5
"""Nodes that are made at a time."""
BATCHES_PER_RUN = 20
"""Bounds a history: a batch of 16 nodes takes about 120 events."""
LOOKS_IN_VAIN = 5
"""Batches in a row of which nothing could be published, before the run fails."""
GIVEN_UP_AT = 5
"""Nodes in a row that no summarizer could make, in batches of which it made none: it is down."""


class _Made(NamedTuple):
    """`failed`: compactions of nodes that no summarizer could make, whose tokens count: asking for
    them may have cost as much.
    """

    drafts: list[UUID]
    failed: list[UUID]
    tokens: int
    spending: Spending = NOTHING_SPENT


@workflow.defn(name=REBUILD_WORKFLOW)
class Rebuild:
    @workflow.init
    def __init__(self, request: RebuildRequest) -> None:
        self._request = request
        self._result = request.so_far
        self._began = workflow.now()
        self._phase = "starting"
        self._left = 0
        self._in_vain = 0
        self._failed = 0

    @workflow.run
    async def run(self, request: RebuildRequest) -> RebuildResult:
        try:
            for _ in range(BATCHES_PER_RUN):
                if not await self._batch():
                    self._show(self._end())
                    return self._result
        except asyncio.CancelledError:
            self._show(f"canceled: {self._phase}")
            raise
        except ActivityError as error:
            end = "canceled" if is_cancelled_exception(error) else "failed"
            self._show(f"{end}: {self._phase}", error=reason_of(error))
            if is_cancelled_exception(error):
                raise
            raise ApplicationError(reason_of(error), type=COMPACTION_FAILED) from error
        self._show("continued in another run")
        workflow.continue_as_new(self._request.model_copy(update={"so_far": self._result}))

    @workflow.query(name=PROGRESS, description="Phase, figures so far, nodes left")
    def progress(self) -> RebuildProgress:
        return RebuildProgress(
            phase=self._phase, request=self._request, result=self._result, left=self._left
        )

    async def _batch(self) -> bool:
        """False: nothing is due any more, or nothing can be done about it."""
        self._show("planning")
        plan = await rebuild_steps.plan(self._request)
        self._note_plan(plan)
        if plan.nodes:
            return await self._make_and_replace(plan)
        if plan.is_stale and not plan.paused:
            await self._replace(plan, _Made([], [], 0))
        return plan.more

    async def _make_and_replace(self, plan: RebuildPlan) -> bool:
        self._show("summarizing", plan)
        made = await self._make(plan)
        if not made.drafts and not made.failed:
            return self._note_overtaken()
        self._count(tokens_read=made.tokens, degraded=len(made.failed))
        self._spend(made.spending)
        self._request = self._request.model_copy(
            update={"spent": self._request.spent + made.tokens}
        )
        await self._replace(plan, made)
        self._failed = 0 if made.drafts else self._failed + len(made.failed)
        if self._failed < GIVEN_UP_AT:
            return True
        self._result = self._result.model_copy(update={"left": plan.left})
        return False

    async def _make(self, plan: RebuildPlan) -> _Made:
        places = asyncio.Semaphore(AT_ONCE)

        async def make(node: PlannedNode) -> SummarizeResult | ActivityError:
            async with places:
                try:
                    return await rebuild_steps.make(self._request, plan, node)
                except ActivityError as error:
                    if is_cancelled_exception(error):
                        raise
                    return error

        made = _Made([], [], 0)
        for node, result in zip(
            plan.nodes, await asyncio.gather(*map(make, plan.nodes)), strict=True
        ):
            if isinstance(result, SummarizeResult):
                made.drafts.append(result.summary_id)
                made = made._replace(
                    tokens=made.tokens + result.tokens_before,
                    spending=made.spending.plus(result.spending),
                )
            elif type_of(result) != STALE_PLAN:
                workflow.logger.warning("a node stays as it is: %s", reason_of(result))
                made.failed.append(node.compaction_id)
                made = made._replace(tokens=made.tokens + node.tokens)
        return made

    async def _replace(self, plan: RebuildPlan, made: _Made) -> None:
        self._show("replacing", plan)
        try:
            replaced = await rebuild_steps.replace(self._request, made.drafts, made.failed)
        except ActivityError as error:
            if type_of(error) != STALE_PLAN:
                raise
            self._note_overtaken()
            return
        self._in_vain = 0
        self._count(replaced=replaced.replaced, merged=replaced.merged)
        self._spend(replaced.spending)
        found = {"checkpoint_turn": replaced.checkpoint_turn}
        self._result = self._result.model_copy(update=found)
        if made.drafts:
            await self._index(plan, replaced)

    async def _index(self, plan: RebuildPlan, replaced: ReplaceResult) -> None:
        self._show("indexing", plan)
        turns = TurnRange(from_turn=replaced.from_turn, to_turn=replaced.to_turn)
        try:
            await steps.index(self._request, turns)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("index failed, the next pass repairs it: %s", reason_of(error))

    def _note_overtaken(self) -> bool:
        """Each batch that was overtaken means that somebody else got further; more in a row mean a
        bug.
        """
        self._in_vain += 1
        if self._in_vain == LOOKS_IN_VAIN:
            message = f"{LOOKS_IN_VAIN} batches in a row were overtaken"
            self._show("failed", error=message)
            raise ApplicationError(message, type=COMPACTION_FAILED)
        return True

    def _note_plan(self, plan: RebuildPlan) -> None:
        began = {"since": plan.since, "begun_at": plan.begun_at}
        if not plan.paused and not plan.reverted:
            self._request = self._request.model_copy(update=began)
        self._left = plan.left + len(plan.nodes)
        self._count(skipped=plan.skipped)
        found = {
            "checkpoint_turn": plan.checkpoint_turn,
            "left": 0 if plan.nodes else plan.left,
            "paused": plan.paused,
            "reverted": plan.reverted,
        }
        self._result = self._result.model_copy(update=found)

    def _end(self) -> str:
        if self._result.reverted:
            return "ended by a revert"
        return "paused" if self._result.paused else "done"

    def _count(self, **more: int) -> None:
        counted = {name: getattr(self._result, name) + count for name, count in more.items()}
        self._result = self._result.model_copy(update=counted)

    def _spend(self, more: Spending) -> None:
        spending = {"spending": self._result.spending.plus(more)}
        self._result = self._result.model_copy(update=spending)

    def _show(self, phase: str, plan: RebuildPlan | None = None, error: str | None = None) -> None:
        self._phase = phase
        elapsed = workflow.now() - self._began
        text = rebuild_details(phase, self._request, self._result, plan, elapsed, error)
        workflow.set_current_details(text)
