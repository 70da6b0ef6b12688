"""Sweeps over all branches: one activity after another, each from where the one before ended.

Where the time of a sweep is over it ends with its position, and the schedule's next one goes on
from there, so that the last branches get their turn however many there are before them.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
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

# Bounds histories: an activity takes its place in one about six times.
STEPS_PER_RUN = 100
# An activity ends by itself after about 20 s and a batch, unless it is all of an upgrade.
STEP_TIMEOUT = timedelta(minutes=15)
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=30)
)


@workflow.defn(name=SWEEP_WORKFLOW)
class Sweep:
    @workflow.run
    async def run(self, request: SweepRequest) -> SweepResult:
        if request.started_at is None:
            request = _begun(request)
        _show(request, request.position)
        try:
            position = await self._sweep(request)
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            raise ApplicationError(reason_of(error), type=SWEEP_FAILED) from error
        left_at = "" if position.is_done else position.after
        if request.kind == "verify" and (damage := _damage(position.counts)):
            raise ApplicationError(damage, position.counts, left_at, type=DAMAGE_FOUND)
        return SweepResult(kind=request.kind, counts=position.counts, left_at=left_at)

    async def _sweep(self, request: SweepRequest) -> SweepPosition:
        position = request.position
        assert request.started_at is not None
        until = request.started_at + request.longest
        for _ in range(STEPS_PER_RUN):
            position = await _step(request.model_copy(update={"position": position}))
            _show(request, position)
            if position.is_done or workflow.now() >= until:
                return position
        workflow.continue_as_new(request.model_copy(update={"position": position}))


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
        summary=f"{request.kind}, after {request.position.counts.scanned:,}",
    )


def _show(request: SweepRequest, position: SweepPosition) -> None:
    lines = [f"**{request.kind}** {'done' if position.is_done else 'sweeping'}"]
    lines += [f"- {name}: {count:,}" for name, count in _figures(position.counts).items()]
    workflow.set_current_details("\n".join(lines))


def _figures(counts: SweepCounts) -> dict[str, int]:
    """Those that say something, and how many were looked at."""
    figures = counts.model_dump(exclude={"found"}) | counts.found
    return {name: count for name, count in figures.items() if count or name == "scanned"}
