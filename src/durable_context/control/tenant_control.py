"""What operators do with all that a tenant has: the part of `ContextClient` that agents seldom
need.
"""

import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING
from uuid import UUID

from durable_context.arguments import check_limit
from durable_context.contracts import Reason, TreeReason
from durable_context.contracts.sweep import SweepKind
from durable_context.control.history import (
    CompactionHistory,
    CompactionStatus,
    CompactionTotals,
)
from durable_context.control.overview import Overview
from durable_context.control.pausing import Pausing
from durable_context.control.status import StatusFilter, StatusPage
from durable_context.doctor.diagnosis import Checkup
from durable_context.doctor.examining import Patient, examine
from durable_context.errors import CompactionUnavailable, InvalidArgument
from durable_context.ids import check_ids
from durable_context.models import Compaction, Pause
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources
from durable_context.retention import RetentionPolicy, RetentionReport
from durable_context.retention.deletion import delete_conversation
from durable_context.retention.running import Retention
from durable_context.retention.settings import keep_retention_policy, retention_policy
from durable_context.schedules import (
    AppliedSchedule,
    ScheduleSettings,
    SweepSchedule,
    check_kind,
)
from durable_context.verification.findings import Verified
from durable_context.verification.sweep import verify_all

if TYPE_CHECKING:
    from durable_context.sweeps.schedule_calls import ScheduleCalls


class TenantControl:
    """Base of `ContextClient`."""

    _resources: Resources
    _policy: CompactionPolicy

    @property
    def policy(self) -> CompactionPolicy:
        """What its branches are compacted and shown by."""
        return self._policy

    async def pause(self, because: str | None = None) -> Pause:
        """Compact nothing of the tenant until `resume`, neither what it has nor what it gets.
        Turns are recorded and prompts prepared as before; compactions that are under way end.

        Idempotent, as `Branch.pause` is. Raises InvalidArgument.
        """
        return await self._pausing.pause_tenant(because)

    async def resume(self) -> None:
        """End the tenant's pause, if there is one; branches that are paused themselves stay so.

        The catch-up sweep starts what is due by now, and so does the next turn of a branch.
        """
        await self._pausing.resume_tenant()

    async def paused(self) -> Pause | None:
        """The tenant's pause, None where it has none."""
        return await self._pausing.of_tenant()

    async def schedules(self) -> tuple[SweepSchedule, ...]:
        """The schedules of sweeps, which are for all tenants: when each came and comes, and how its
        newest sweep ended. Raises CompactionUnavailable.
        """
        return await (await self._schedules()).all()

    async def apply_schedules(
        self, settings: ScheduleSettings | None = None, *, reset: bool = False
    ) -> tuple[AppliedSchedule, ...]:
        """Make the schedules that are missing, and change of the others what differs; by default
        with the client's policy. What an operator changed stays: pause, note, interval; with
        `reset` it does not. Idempotent. Raises CompactionUnavailable.
        """
        settings = settings or ScheduleSettings(policy=self._policy)
        return await (await self._schedules()).apply(settings, reset=reset)

    async def trigger_schedule(self, kind: SweepKind) -> None:
        """Start a sweep now, also of a paused schedule; while one runs, none is started.

        Raises CompactionUnavailable, InvalidArgument.
        """
        await (await self._schedules()).trigger(check_kind(kind))

    async def pause_schedule(self, kind: SweepKind, note: str = "Paused") -> None:
        """It stays paused however often schedules are applied. Raises CompactionUnavailable,
        InvalidArgument.
        """
        await (await self._schedules()).pause(check_kind(kind), note)

    async def resume_schedule(self, kind: SweepKind, note: str = "Resumed") -> None:
        """Raises CompactionUnavailable, InvalidArgument."""
        await (await self._schedules()).resume(check_kind(kind), note)

    async def _schedules(self) -> "ScheduleCalls":
        if self._resources.requests is None:
            raise CompactionUnavailable("the client was made with temporal=None")
        return await self._resources.requests.schedules()

    def verify(self, conversation_id: str | None = None) -> AsyncIterator[Verified]:
        """`Branch.verify` of each branch, of one conversation or of all; of all, then what no
        branch owns. Raises ArtifactStoreUnavailable.
        """
        shared = self._resources
        return verify_all(shared.pool, shared.contents, shared.tenant, conversation_id)

    async def doctor(self) -> Checkup:
        """Look at all that the client stands on (database, Temporal, object store) and at how
        compaction keeps up; what is not well comes with how to mend it.

        Changes nothing but a probe in the object store. Takes seconds, half a minute where nothing
        answers. Raises nothing for what is down.
        """
        shared = self._resources
        return await examine(
            Patient(
                tenant=shared.tenant,
                policy=self._policy,
                environ=os.environ,
                pool=shared.pool,
                requests=shared.requests,
                contents=shared.contents,
            )
        )

    async def retention(self) -> RetentionPolicy:
        """What the tenant keeps, and for how long: what was set, else the default."""
        return await retention_policy(self._resources.pool, self._resources.tenant)

    async def set_retention(self, policy: RetentionPolicy) -> None:
        """From now on retention goes by this, all of it. Raises InvalidArgument."""
        if not isinstance(policy, RetentionPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"policy={policy!r:.80}; it must be a RetentionPolicy")
        await keep_retention_policy(self._resources.pool, self._resources.tenant, policy)

    async def gc(
        self, *, dry_run: bool = False, told: Callable[[RetentionReport], None] | None = None
    ) -> RetentionReport:
        """Delete what by the tenant's policy nothing needs any more. A `dry_run` only reads, and
        says what this would take.

        In batches, each a transaction: it may be stopped at any moment, and run beside all else.
        `told` is given what is done so far. Raises ArtifactStoreUnavailable.
        """
        shared = self._resources
        run = Retention(shared.pool, shared.contents, shared.tenant, dry_run=dry_run)
        return await run.run(told)

    async def delete_conversation(
        self, conversation_id: str, *, dry_run: bool = False
    ) -> RetentionReport:
        """Delete all branches of a conversation for good, pins or not, all or nothing; then what
        nothing else names of its contents.

        Whoever records to one of them gets UnknownBranch. A large content that was written within
        the last hour stays until a later `gc`, and so do all when ArtifactStoreUnavailable is
        raised: the conversation is gone by then. Raises UnknownBranch if there is none, InvalidId.
        """
        check_ids(conversation_id=conversation_id)
        shared = self._resources
        return await delete_conversation(
            shared.pool, shared.contents, shared.tenant, conversation_id, dry_run=dry_run
        )

    async def status(
        self,
        *,
        conversation_id: str | None = None,
        beginning: str | None = None,
        only: StatusFilter | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> StatusPage:
        """The tenant's branches, or those of one conversation, or of those whose ids have this
        `beginning`, by how far compaction is behind by the client's policy, the furthest first.

        `after` is that of the page before; a branch that moves meanwhile may be missed or come
        twice. A page looks at all branches, 0.2 s for 100,000, and the totals, which come with the
        first one, at all compactions, 0.8 s. Raises InvalidArgument, InvalidId.
        """
        check_limit(limit)
        if conversation_id is not None:
            check_ids(conversation_id=conversation_id)
        if beginning is not None:
            check_ids(beginning=beginning)
        if conversation_id is not None and beginning is not None:
            raise InvalidArgument("conversation_id and beginning: name one of them")
        shared = self._resources
        overview = Overview(shared.pool, shared.tenant, self._policy)
        return await overview.page(conversation_id, only, limit, after, beginning=beginning)

    async def compactions(
        self,
        limit: int = 20,
        *,
        begin: UUID | None = None,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> tuple[Compaction, ...]:
        """The newest compactions of all branches, newest first; also those that were skipped.

        `begin`: older ones, from that with this id on. Raises InvalidArgument.
        """
        check_limit(limit)
        return await self._compactions.newest(limit, begin, status, reason)

    async def compaction_totals(
        self,
        *,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> CompactionTotals:
        """How many compactions of all branches there are, what they cost and what they save. Reads
        them all. Raises InvalidArgument.
        """
        return await self._compactions.totals(status, reason)

    @property
    def _compactions(self) -> CompactionHistory:
        return CompactionHistory(self._resources.pool, self._resources.tenant)

    @property
    def _pausing(self) -> Pausing:
        return Pausing(self._resources.pool, self._resources.tenant)
