"""The schedules of sweeps in Temporal: made, compared, changed and looked at. It imports temporalio
and is itself imported when it is first needed.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, cast

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from durable_context.compaction.run_texts import sweep_attributes, sweep_details
from durable_context.compaction.search_attributes import search_attributes
from durable_context.compaction.temporal_calls import unavailable
from durable_context.contracts.sweep import (
    SWEEP_KINDS,
    SWEEP_WORKFLOW,
    SweepKind,
    SweepRequest,
    schedule_id,
)
from durable_context.errors import InvalidArgument
from durable_context.schedules import (
    CATCH_UP_WINDOW,
    JITTER_SHARE,
    LONGEST_JITTER,
    PAUSED_AT_FIRST,
    AppliedSchedule,
    ScheduleSettings,
    SweepSchedule,
    execution_timeout,
)
from durable_context.sweeps.last_sweep import LastSweep, last_sweep

POLICY = SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP_WINDOW)
PAUSED_NOTE = "Paused by default: trigger it, or resume it"
NO_TIME = timedelta(0)


class Compared(NamedTuple):
    """`wanted` has of what is there whatever an operator changed (`kept`)."""

    wanted: Schedule
    changed: tuple[str, ...]
    kept: tuple[str, ...]


class ScheduleCalls:
    """Of the sweeps that run on this task queue. All methods raise CompactionUnavailable."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def apply(
        self, settings: ScheduleSettings, *, reset: bool = False
    ) -> tuple[AppliedSchedule, ...]:
        """Make what is missing, and change what differs. What an operator changed stays as it is,
        pause, note and interval, unless `reset`.
        """
        async with _asked():
            return tuple([await self._apply(kind, settings, reset) for kind in SWEEP_KINDS])

    async def all(self) -> tuple[SweepSchedule, ...]:
        async with _asked():
            return tuple(await asyncio.gather(*(self._look(kind) for kind in SWEEP_KINDS)))

    async def trigger(self, kind: SweepKind) -> None:
        """Start a sweep now, paused or not; none while one of the kind runs."""
        async with _asked(kind):
            await self._handle(kind).trigger()

    async def pause(self, kind: SweepKind, note: str) -> None:
        async with _asked(kind):
            await self._handle(kind).pause(note=note)

    async def resume(self, kind: SweepKind, note: str) -> None:
        async with _asked(kind):
            await self._handle(kind).unpause(note=note)

    def _handle(self, kind: SweepKind) -> ScheduleHandle:
        return self._client.get_schedule_handle(schedule_id(kind, self._task_queue))

    async def _apply(
        self, kind: SweepKind, settings: ScheduleSettings, reset: bool
    ) -> AppliedSchedule:
        name = schedule_id(kind, self._task_queue)
        try:
            await self._client.create_schedule(name, await self._desired(kind, settings))
        except ScheduleAlreadyRunningError:
            compared = await self._update(kind, settings, reset)
            change = "updated" if compared.changed else "unchanged"
            return AppliedSchedule(
                kind=kind,
                schedule_id=name,
                change=change,
                changed=compared.changed,
                kept=compared.kept,
            )
        return AppliedSchedule(kind=kind, schedule_id=name, change="created")

    async def _update(self, kind: SweepKind, settings: ScheduleSettings, reset: bool) -> Compared:
        """Nothing is sent where nothing differs: an update discards a run that waits for its
        jitter.
        """
        handle = self._handle(kind)
        compared = await self._compared(await handle.describe(), kind, settings, reset)
        if compared.changed:

            async def updated(found: ScheduleUpdateInput) -> ScheduleUpdate:
                again = await self._compared(found.description, kind, settings, reset)
                return ScheduleUpdate(again.wanted)

            await handle.update(updated)
        return compared

    async def _compared(
        self, found: ScheduleDescription, kind: SweepKind, settings: ScheduleSettings, reset: bool
    ) -> Compared:
        there = found.schedule
        action = there.action
        assert isinstance(action, ScheduleActionStartWorkflow)
        request = await self._request_of(action)
        is_ours = reset or _is_applied(there.spec, request)
        every = settings.every(kind) if is_ours else _every(there.spec) or settings.every(kind)
        wanted = await self._desired(kind, settings, every)
        if not is_ours:
            wanted = replace(wanted, spec=there.spec)
        if not reset:
            wanted = replace(wanted, state=there.state)
        return Compared(wanted, _differences(wanted, there, request), _kept(kind, wanted, is_ours))

    async def _request_of(self, action: ScheduleActionStartWorkflow) -> SweepRequest | None:
        """None where another version wrote something that cannot be read."""
        payloads: Sequence[Any] = action.args
        try:
            [request] = await self._client.data_converter.decode(payloads, [SweepRequest])
        except (ValueError, RuntimeError):
            return None
        return request

    async def _desired(
        self, kind: SweepKind, settings: ScheduleSettings, every: timedelta | None = None
    ) -> Schedule:
        every = every or settings.every(kind)
        paused = kind in PAUSED_AT_FIRST
        request = settings.request(kind, every)
        return Schedule(
            action=ScheduleActionStartWorkflow(
                SWEEP_WORKFLOW,
                request,
                id=schedule_id(kind, self._task_queue),
                task_queue=self._task_queue,
                execution_timeout=execution_timeout(every),
                static_summary=f"{kind} sweep",
                static_details=sweep_details(request),
                typed_search_attributes=await self._attributes(request),
            ),
            spec=ScheduleSpec(
                intervals=[ScheduleIntervalSpec(every=every)], jitter=_jitter(every) or None
            ),
            policy=POLICY,
            state=ScheduleState(paused=paused, note=PAUSED_NOTE if paused else None),
        )

    async def _attributes(self, request: SweepRequest) -> TypedSearchAttributes:
        return await search_attributes(self._client).of(sweep_attributes(request))

    async def _look(self, kind: SweepKind) -> SweepSchedule:
        name = schedule_id(kind, self._task_queue)
        try:
            found = await self._handle(kind).describe()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return SweepSchedule(kind=kind, schedule_id=name, exists=False)
        last = await last_sweep(self._client, found.info)
        return _schedule(kind, found, last)


def _schedule(kind: SweepKind, found: ScheduleDescription, last: LastSweep) -> SweepSchedule:
    state, info = found.schedule.state, found.info
    upcoming = None if state.paused else next(iter(info.next_action_times), None)
    return SweepSchedule(
        kind=kind,
        schedule_id=found.id,
        paused=state.paused,
        note=state.note or "",
        every=_every(found.schedule.spec),
        last_run_at=last.at,
        next_run_at=upcoming,
        last_status=last.status,
        last_result=last.result,
        last_error=last.error,
        runs=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
    )


def _every(spec: ScheduleSpec) -> timedelta | None:
    """The interval of a schedule that has one and nothing else."""
    if len(spec.intervals) != 1 or spec.calendars or spec.cron_expressions:
        return None
    return spec.intervals[0].every


def _jitter(every: timedelta) -> timedelta:
    """In whole seconds."""
    seconds = min(every * JITTER_SHARE, LONGEST_JITTER).total_seconds()
    return timedelta(seconds=int(seconds))


def _is_applied(spec: ScheduleSpec, request: SweepRequest | None) -> bool:
    """Whether it is as it was applied: the request tells the interval that was."""
    if request is None or request.every is None or _every(spec) != request.every:
        return False
    is_plain = not (spec.intervals[0].offset or spec.skip or spec.start_at or spec.end_at)
    return is_plain and (spec.jitter or NO_TIME) == _jitter(request.every)


def _differences(
    wanted: Schedule, there: Schedule, request: SweepRequest | None
) -> tuple[str, ...]:
    new, old = wanted.action, there.action
    assert isinstance(new, ScheduleActionStartWorkflow)
    assert isinstance(old, ScheduleActionStartWorkflow)
    same = {
        "interval": _times(wanted.spec) == _times(there.spec),
        "request": new.args[0] == request and new.workflow == old.workflow,
        "timeout": new.execution_timeout == old.execution_timeout,
        "search attributes": _named(new) == _named(old),
        "task queue": new.task_queue == old.task_queue,
        "policy": wanted.policy == there.policy,
        "pause": wanted.state.paused == there.state.paused,
        "note": (wanted.state.note or "") == (there.state.note or ""),
    }
    return tuple(name for name, is_same in same.items() if not is_same)


def _named(action: ScheduleActionStartWorkflow) -> dict[str, Any]:
    """By name: the server does not tell of what kind they are."""
    attributes = cast("Iterable[SearchAttributePair[Any]]", action.typed_search_attributes)
    return {pair.key.name: pair.value for pair in attributes}


def _times(spec: ScheduleSpec) -> tuple[object, ...]:
    """Alike for what the server gives back and what it was given."""
    intervals = [(each.every, each.offset or NO_TIME) for each in spec.intervals]
    rest = (list(spec.calendars), list(spec.cron_expressions), list(spec.skip))
    return (intervals, spec.jitter or NO_TIME, *rest, spec.start_at, spec.end_at)


def _kept(kind: SweepKind, wanted: Schedule, is_ours: bool) -> tuple[str, ...]:
    paused = kind in PAUSED_AT_FIRST
    kept = {
        "interval": not is_ours,
        "pause": wanted.state.paused != paused,
        "note": (wanted.state.note or "") != (PAUSED_NOTE if paused else ""),
    }
    return tuple(name for name, is_kept in kept.items() if is_kept)


@asynccontextmanager
async def _asked(kind: SweepKind | None = None) -> AsyncGenerator[None]:
    try:
        yield
    except (RPCError, RuntimeError) as error:
        if kind and isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
            raise InvalidArgument(
                f"there is no schedule of kind {kind!r}: apply the schedules first"
            ) from error
        raise unavailable(error) from error
