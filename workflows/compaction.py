"""Compacts one branch until nothing is due: a short run per burst of turns, at most one at a time.

All state is in PostgreSQL. What the run holds is only what was asked of it since it started.
"""

import asyncio
import contextlib
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import (
        COMPACT_NOW,
        COMPACTION_FAILED,
        COMPACTION_WORKFLOW,
        NOTHING_SPENT,
        PROGRESS,
        STALE_PLAN,
        TURN_COMMITTED,
        ArtifactsResult,
        CommitResult,
        CompactionProgress,
        CompactionRequest,
        CompactionResult,
        CompactNow,
        NodeRange,
        Plan,
        SummarizeResult,
        TurnHint,
    )
    from workflows import steps
    from workflows.details import compaction_details, reason_of, type_of, work_text

# Each plan that was overtaken means that somebody else got further. More in a row mean a bug.
PLANS_PER_PASS = 5
# Bounds the history of a pass. What is left is taken up by the next one.
ARTIFACT_BATCHES_PER_PASS = 20


@workflow.defn(name=COMPACTION_WORKFLOW)
class Compaction:
    """`requested` counts what was asked, `covered` how much of that is done.

    What is asked while a look at the database is under way may have missed it, so it counts for the
    next one: a look covers only what was asked before it began.
    """

    @workflow.init
    def __init__(self, request: CompactionRequest) -> None:
        self._request = request
        self._requested = request.pending
        self._covered = 0
        self._urgent = 0
        self._focus_id = request.focus_id
        self._focused = request.pending if request.focus_id else 0
        self._looks = 0
        self._is_ending = False
        self._began = workflow.now()
        self._phase = "starting"
        self._made: list[SummarizeResult] = []
        self._failure: str | None = None
        self._result = CompactionResult(
            passes=0, checkpoint_turn=0, tokens_before=0, tokens_after=0, spending=NOTHING_SPENT
        )

    @workflow.run
    async def run(self, request: CompactionRequest) -> CompactionResult:
        try:
            await self._compact_all()
        except asyncio.CancelledError:
            self._show(f"canceled: {self._phase}")
            raise
        except ActivityError as error:
            self._failure = reason_of(error)
            end = "canceled" if is_cancelled_exception(error) else "failed"
            self._show(f"{end}: {self._phase}")
            await workflow.wait_condition(workflow.all_handlers_finished)
            if is_cancelled_exception(error):
                raise
            raise ApplicationError(self._failure, type=COMPACTION_FAILED) from error
        self._show("paused" if self._result.paused else "done")
        return self._result

    @workflow.signal(
        name=TURN_COMMITTED, description="A turn was committed: look again whether a segment is due"
    )
    def turn_committed(self, hint: TurnHint) -> None:
        self._requested += 1

    @workflow.update(
        name=COMPACT_NOW,
        description="Compact all that is due, without waiting for more turns; answers when it is"
        " done. Needs no input",
    )
    async def compact_now(self, asked: CompactNow | None = None) -> CompactionResult:
        self._requested += 1
        mine = self._urgent = self._requested
        if asked is not None and asked.focus_id is not None:
            self._focus_id, self._focused = asked.focus_id, mine
        await workflow.wait_condition(
            lambda: self._covered >= mine or self._is_ending or self._failure is not None
        )
        if self._failure is not None:
            raise ApplicationError(self._failure, type=COMPACTION_FAILED, non_retryable=True)
        return self._result.model_copy(update={"more": self._covered < mine})

    @workflow.query(name=PROGRESS, description="Phase, segments compacted, checkpoint")
    def progress(self) -> CompactionProgress:
        return CompactionProgress(
            phase=self._phase,
            passes=self._result.passes,
            checkpoint_turn=self._result.checkpoint_turn,
            requested=self._requested,
            covered=self._covered,
        )

    @property
    def _is_pending(self) -> bool:
        return self._requested > self._covered

    @property
    def _focus(self) -> UUID | None:
        """What is to be kept in view, until all is done that it was asked for with."""
        return self._focus_id if self._focused > self._covered else None

    @property
    def _is_long(self) -> bool:
        return self._looks >= self._request.policy.passes_per_run

    async def _compact_all(self) -> None:
        while True:
            while self._is_pending and not self._is_long:
                await self._settle()
                await self._compact_due()
            # Requests that are not covered by now are repeated by who asked, to the next run.
            self._is_ending = self._is_long
            await workflow.wait_condition(
                lambda: (self._is_pending and not self._is_long) or workflow.all_handlers_finished()
            )
            if not self._is_pending:
                return
            if self._is_long and workflow.all_handlers_finished():
                self._show("continued in another run")
                rest = {"pending": self._requested - self._covered, "focus_id": self._focus}
                workflow.continue_as_new(self._request.model_copy(update=rest))

    async def _settle(self) -> None:
        """Wait for more hints of the same burst, unless somebody waits for us."""
        debounce = self._request.policy.debounce
        if not self._looks or not debounce or self._urgent > self._covered:
            return
        self._show("settling")
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._urgent > self._covered,
                timeout=debounce,
                timeout_summary="wait for more turns of the same burst",
            )

    async def _compact_due(self) -> None:
        goal = self._requested
        while not self._is_long:
            self._looks += 1
            if not await self._compact_segment():
                self._covered = goal
                return

    async def _compact_segment(self) -> bool:
        """One pass. True: another segment is due."""
        overtaken = 0
        while True:
            self._made = []
            self._show("planning")
            plan = await steps.plan(self._request, self._focus)
            if plan.artifacts:
                await self._summarize_artifacts(plan)
            if not plan.nodes or plan.compaction_id is None:
                found = {"checkpoint_turn": plan.checkpoint_turn, "paused": plan.paused}
                self._result = self._result.model_copy(update=found)
                if plan.artifacts or plan.unindexed:
                    await self._index(plan)
                return False
            try:
                committed = await self._make(plan, plan.compaction_id)
            except ActivityError as error:
                overtaken += 1
                if type_of(error) != STALE_PLAN or overtaken == PLANS_PER_PASS:
                    raise
            else:
                await self._index(plan)
                return committed.more

    async def _make(self, plan: Plan, compaction_id: UUID) -> CommitResult:
        summaries = await self._summarize(plan, compaction_id)
        self._show("committing", plan)
        ids = [summary.summary_id for summary in summaries]
        committed = await steps.commit(self._request, plan, compaction_id, ids)
        self._note(plan, summaries, committed)
        return committed

    async def _summarize_artifacts(self, plan: Plan) -> None:
        """So far as that works: turns are compacted without it, too."""
        self._show("summarizing artifacts", plan)
        skip = 0
        try:
            for _ in range(ARTIFACT_BATCHES_PER_PASS):
                batch = await steps.summarize_artifacts(self._request, plan, skip)
                self._count(batch)
                skip += batch.failed
                if not batch.more:
                    return
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("artifacts are left without summaries: %s", reason_of(error))

    async def _summarize(self, plan: Plan, compaction_id: UUID) -> list[SummarizeResult]:
        """The leaf, then its merges, each from what was made before it.

        A merge that fails, or that only the extractive summarizer would make, is left to a later
        one: the leaf, which ends the lag, is published without it.
        """
        leaf, *merges = plan.nodes
        made = self._made = []
        made.append(await self._node(plan, compaction_id, leaf, made))
        for node in merges:
            try:
                merged = await self._node(plan, compaction_id, node, made)
            except ActivityError as error:
                if is_cancelled_exception(error) or type_of(error) == STALE_PLAN:
                    raise
                workflow.logger.warning("a merge is left for later: %s", reason_of(error))
                break
            if merged.degraded:
                break
            made.append(merged)
        return made

    async def _node(
        self, plan: Plan, compaction_id: UUID, node: NodeRange, made: list[SummarizeResult]
    ) -> SummarizeResult:
        text = work_text(node, plan)
        self._show(text, plan)
        drafts = [summary.summary_id for summary in made]
        return await steps.summarize(self._request, compaction_id, node, drafts, text)

    async def _index(self, plan: Plan) -> None:
        self._show("indexing", plan)
        try:
            await steps.index(self._request, plan.turns)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("index failed, the next pass repairs it: %s", reason_of(error))

    def _note(self, plan: Plan, made: list[SummarizeResult], committed: CommitResult) -> None:
        self._result = CompactionResult(
            artifacts=self._result.artifacts,
            passes=self._result.passes + 1,
            checkpoint_turn=committed.checkpoint_turn,
            tokens_before=committed.tokens_before,
            tokens_after=committed.tokens_after,
            degraded=self._result.degraded + sum(node.degraded for node in made),
            from_turn=plan.nodes[0].from_turn,
            recipe=made[0].recipe,
            made_by=made[0].made_by,
            attempts=self._result.attempts + sum(node.attempts for node in made),
            spending=self._result.spending.plus(committed.spending),
        )

    def _count(self, batch: ArtifactsResult) -> None:
        counted = {
            "artifacts": self._result.artifacts + batch.summarized,
            "degraded": self._result.degraded + batch.degraded,
        }
        self._result = self._result.model_copy(update=counted)

    def _show(self, phase: str, plan: Plan | None = None) -> None:
        self._phase = phase
        elapsed = workflow.now() - self._began
        text = compaction_details(
            phase, self._request, self._result, plan, self._made, elapsed, self._failure
        )
        workflow.set_current_details(text)
