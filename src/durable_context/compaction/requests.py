"""The library's side toward Temporal: hints that nobody waits for and that may be lost, and
compaction on request. temporalio is imported when Temporal is first needed.
"""

import asyncio
import contextlib
import logging
import time
from contextvars import Context
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from durable_context.compaction.bounds import bounded
from durable_context.contracts import (
    COMPACTION_TASK_QUEUE,
    CompactionProgress,
    CompactionRequest,
    CompactionResult,
)
from durable_context.contracts.rebuild import RebuildProgress, RebuildRequest, RebuildResult
from durable_context.errors import DurableContextError
from durable_context.telemetry.hints import Origin, hint_span, origin_here, resumed

if TYPE_CHECKING:
    from temporalio.client import Client

    from durable_context.compaction.temporal_calls import CompactionCalls
    from durable_context.sweeps.schedule_calls import ScheduleCalls

logger = logging.getLogger(__name__)

HINT_SECONDS = 0.5
"""Hard bound on a hint. The call's own timeout bounds one of its attempts, not all of them."""
PROGRESS_SECONDS = 5.0
CIRCUIT_OPEN_SECONDS = 5.0
PACE = 0.75
"""Share of the debounce between two hints for a branch: the second still finds the run delayed."""


class WaitingHint(NamedTuple):
    """`origin`: where the hint comes from, for traces."""

    request: CompactionRequest
    turn_no: int
    debounce: timedelta
    origin: Origin


async def register_search_attributes(client: "Client") -> list[str]:
    """Register what Temporal does not know yet, in the migration step. Returns what was missing and
    is registered now.
    """
    from durable_context.compaction import search_attributes

    return await search_attributes.register_search_attributes(client)


class CompactionRequests:
    """`temporal` is a client with the pydantic data converter, or an address, or None for what
    Temporal's own environment configuration says.
    """

    def __init__(
        self,
        temporal: "Client | str | None" = None,
        *,
        task_queue: str = COMPACTION_TASK_QUEUE,
    ) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._calls: CompactionCalls | None = None
        self._connecting = asyncio.Lock()
        self._closed_until = 0.0
        self._is_down = False
        self._hinting: dict[UUID, asyncio.Task[None]] = {}
        self._next: dict[UUID, WaitingHint] = {}
        self._closing = asyncio.Event()

    def hint_later(self, request: CompactionRequest, turn_no: int, debounce: timedelta) -> None:
        """Hint in the background. Hints of a burst are paced, and the newest one is sent."""
        branch = request.branch_uuid
        before = self._next.get(branch)
        origin = origin_here(before.origin if before else None)
        self._next[branch] = WaitingHint(request, turn_no, debounce, origin)
        if branch not in self._hinting:
            # In a context of its own: each hint brings that of the turn it is about.
            self._hinting[branch] = asyncio.create_task(self._hint_all(branch), context=Context())

    async def hint(self, request: CompactionRequest, turn_no: int, debounce: timedelta) -> bool:
        """Tell Temporal of a committed turn, in half a second at most.

        False: it could not be told. Nothing is lost, compaction is late.
        """
        with hint_span(request, turn_no) as told:
            if time.monotonic() < self._closed_until:
                return told.lost()
            try:
                calls = await self._connected()
                started = await asyncio.wait_for(
                    calls.hint(request, turn_no, debounce), HINT_SECONDS
                )
            except Exception as error:  # whatever it is, a turn is recorded and must not suffer
                self._note_failure(error)
                return told.lost(error)
            self._note_success()
            return told.sent(started)

    async def compact_now(self, request: CompactionRequest, timeout: timedelta) -> CompactionResult:
        """Compact all that is due, with the request's focus if it has one, and wait: `timeout` in
        all, whatever Temporal does.

        Raises CompactionUnavailable, CompactionTimeout (it goes on), CompactionFailed.
        """
        return await bounded(self._compact_now(request), timeout)

    async def progress(self, branch_uuid: UUID) -> CompactionProgress | None:
        """Where the open run stands; None where there is none, or none that answers soon."""
        try:
            calls = await self._connected()
            return await asyncio.wait_for(calls.progress(branch_uuid), PROGRESS_SECONDS)
        except (DurableContextError, TimeoutError):
            return None

    async def _compact_now(self, request: CompactionRequest) -> CompactionResult:
        calls = await self._connected()
        await calls.check()
        while (result := await calls.compact_now(request)).more:
            pass
        return result

    async def rebuild(self, request: RebuildRequest, timeout: timedelta) -> RebuildResult:
        """Rebuild, and wait: `timeout` in all. The same rebuild that is open already is waited for,
        and another one before it.

        Raises CompactionUnavailable, CompactionTimeout (it goes on), CompactionFailed.
        """
        return await bounded(self._rebuild(request), timeout)

    async def _rebuild(self, request: RebuildRequest) -> RebuildResult:
        calls = await self._connected()
        await calls.check()
        from durable_context.compaction import rebuild_calls

        return await rebuild_calls.rebuild_now(calls.client, request, self._task_queue)

    async def rebuilding(self, branch_uuid: UUID) -> RebuildProgress | None:
        """Where the open rebuild stands; None where there is none, or none that answers soon."""
        try:
            calls = await self._connected()
            from durable_context.compaction import rebuild_calls

            found = rebuild_calls.progress(calls.client, branch_uuid)
            return await asyncio.wait_for(found, PROGRESS_SECONDS)
        except (DurableContextError, TimeoutError):
            return None

    async def schedules(self) -> "ScheduleCalls":
        """Those of this task queue. Raises CompactionUnavailable."""
        calls = await self._connected()
        await calls.check()
        from durable_context.sweeps.schedule_calls import ScheduleCalls

        return ScheduleCalls(calls.client, self._task_queue)

    async def reached(self) -> "CompactionCalls":
        """Temporal, which answered just now. Raises CompactionUnavailable."""
        calls = await self._connected()
        await calls.check()
        return calls

    @property
    def task_queue(self) -> str:
        return self._task_queue

    async def close(self) -> None:
        """Send the hints that wait, and wait for those on their way, within a bound."""
        self._closing.set()
        tasks = list(self._hinting.values())
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * HINT_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _hint_all(self, branch: UUID) -> None:
        try:
            while (due := self._next.pop(branch, None)) is not None:
                with resumed(due.origin):
                    await self.hint(due.request, due.turn_no, due.debounce)
                await self._pause(due.debounce * PACE)
        finally:
            del self._hinting[branch]

    async def _pause(self, pace: timedelta) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), pace.total_seconds())

    async def _connected(self) -> "CompactionCalls":
        async with self._connecting:
            if self._calls is None:
                # The import takes long enough to be noticed by whoever shares the event loop.
                await asyncio.to_thread(__import__, "durable_context.compaction.temporal_calls")
                self._calls = await self._connect()
        return self._calls

    async def _connect(self) -> "CompactionCalls":
        from durable_context.compaction.temporal_calls import CompactionCalls, connect

        temporal = self._temporal
        if temporal is None or isinstance(temporal, str):
            temporal = await connect(temporal)
        return CompactionCalls(temporal, self._task_queue)

    def _note_failure(self, error: Exception) -> None:
        self._closed_until = time.monotonic() + CIRCUIT_OPEN_SECONDS
        if not self._is_down:
            self._is_down = True
            logger.warning(
                "Temporal cannot be told of turns, which are recorded but compacted late: %s",
                str(error) or type(error).__name__,
            )

    def _note_success(self) -> None:
        if self._is_down:
            self._is_down = False
            logger.warning("Temporal can be told of turns again")
