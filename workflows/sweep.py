"""Sweeps over all branches: one activity after another, each from where the one before ended.

Where the time of a sweep is over it ends with its position, and the schedule's next one goes on
from there, so that the last branches get their turn however many there are before them.
"""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from durable_context.contracts import PROGRESS
    from durable_context.contracts.sweep import (
        DAMAGE_FOUND,
        SWEEP,
        SWEEP_FAILED,
        SWEEP_WORKFLOW,
        SweepCounts,
        SweepPosition,
        SweepRequest,
        SweepResult,
    )
    from workflows.details import reason_of
    from workflows.tree_details import sweep_details

# Bounds histories: an activity takes its place in one about six times.
STEPS_PER_RUN = 100
# An activity ends by itself after about 20 s and a batch, unless it is all of an upgrade.
STEP_TIMEOUT = timedelta(minutes=15)
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30)
)


@workflow.defn(name=SWEEP_WORKFLOW)
class Sweep:
    @workflow.init
    def __init__(self, request: SweepRequest) -> None:
        self._request = request
        self._position = request.position

    @workflow.query(name=PROGRESS, description="Branches looked at so far, and the key it is at")
    def progress(self) -> SweepPosition:
        return self._position

    @workflow.run
    async def run(self, request: SweepRequest) -> SweepResult:
        if request.started_at is None:
            request = _begun(request)
        self._request, self._position = request, request.position
        self._show("sweeping")
        try:
            position = await self._sweep(request)
        except asyncio.CancelledError:
            self._show("canceled")
            raise
        except ActivityError as error:
            end = "canceled" if is_cancelled_exception(error) else "failed"
            self._show(end, reason_of(error))
            if is_cancelled_exception(error):
                raise
            raise ApplicationError(reason_of(error), type=SWEEP_FAILED) from error
        left_at = "" if position.is_done else position.after
        if request.kind == "verify" and (damage := _damage(position.counts)):
            self._show("damage found", damage)
            raise ApplicationError(damage, position.counts, left_at, type=DAMAGE_FOUND)
        self._show("time is over: the next sweep goes on" if left_at else "done")
        return SweepResult(kind=request.kind, counts=position.counts, left_at=left_at)

    async def _sweep(self, request: SweepRequest) -> SweepPosition:
        position = request.position
        assert request.started_at is not None
        until = request.started_at + request.longest
        for _ in range(STEPS_PER_RUN):
            position = await _step(request.model_copy(update={"position": position}))
            self._position = position
            self._show("sweeping")
            if position.is_done or workflow.now() >= until:
                return position
        self._show("continued in another run")
        workflow.continue_as_new(request.model_copy(update={"position": position}))

    def _show(self, phase: str, error: str | None = None) -> None:
        request = self._request
        elapsed = workflow.now() - (request.started_at or workflow.now())
        workflow.set_current_details(sweep_details(phase, request, self._position, elapsed, error))


def _begun(request: SweepRequest) -> SweepRequest:
    """From where the schedule's sweep before this one ended, if its time was over."""
    left_at = _left_at(request)
    position = request.position if left_at is None else SweepPosition(after=left_at)
    return request.model_copy(update={"started_at": workflow.now(), "position": position})


def _left_at(request: SweepRequest) -> str | None:
    """What a failure tells is newer than the last result, which Temporal keeps beside it."""
    failure = workflow.get_last_failure()
    if isinstance(failure, ApplicationError) and failure.type == DAMAGE_FOUND:
        return str(failure.details[1]) if len(failure.details) > 1 else None
    if workflow.has_last_completion_result():
        last = workflow.get_last_completion_result(SweepResult)
        if last is not None and last.kind == request.kind:
            return last.left_at
    return None


def _damage(counts: SweepCounts) -> str:
    """Empty where there is none."""
    errors, failed = counts.found.get("errors", 0), counts.failed
    said = [f"{errors} of what is stored is not as it was"] if errors else []
    said += [f"{failed} branches could not be verified"] if failed else []
    return "; ".join(said)


async def _step(request: SweepRequest) -> SweepPosition:
    return await workflow.execute_activity(
        SWEEP,
        request,
        result_type=SweepPosition,
        start_to_close_timeout=STEP_TIMEOUT,
        heartbeat_timeout=request.policy.worker_lost_after,
        retry_policy=RETRIES,
        summary=f"{request.kind} sweep, {request.position.counts.scanned:,} branches done",
    )
