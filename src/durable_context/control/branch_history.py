"""What came to be of one branch, a page at a time, and what its next prompt would be: the part of
`Branch` that those need who look at it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from durable_context.arguments import check_budget, check_limit, check_turn
from durable_context.compaction.run_texts import shown_ids
from durable_context.contracts import CompactionRequest, Reason, TreeReason
from durable_context.control.checkpoint_marks import CheckpointMark, newest_checkpoint_marks
from durable_context.control.history import (
    CompactionHistory,
    CompactionStatus,
    CompactionTotals,
)
from durable_context.control.seen_prompt import PromptParts, newest_parts
from durable_context.events import ContextEvent, EventKind
from durable_context.models import Artifact, Compaction, Message
from durable_context.policy import CompactionPolicy
from durable_context.prompts.prepared import Budget, BudgetExceeded, PreparedContext
from durable_context.prompts.preparing import NextCall, foresee
from durable_context.resources import Resources
from durable_context.turns.messages import user_message_of


class BranchHistory:
    """Base of `Branch`, whose attributes these are."""

    conversation_id: str
    branch_id: str
    branch_uuid: UUID
    policy: CompactionPolicy
    _resources: Resources

    async def foresee_prompt(
        self,
        user_message: str | Mapping[str, Any] | Message | None,
        *,
        budget: Budget,
        at_turn: int | None = None,
    ) -> PreparedContext | BudgetExceeded:
        """What `prepare` would return now, to be looked at: a prompt that does not fit is no event.

        Raises InvalidTurn, InvalidArgument.
        """
        check_budget(budget)
        check_turn("at_turn", at_turn)
        call = NextCall(user_message_of(user_message), (), budget, at_turn)
        return await foresee(self._resources, self._request("request"), call)

    async def newest_parts(self) -> PromptParts | None:
        """What the agent made its newest prompt with, as far as turns were recorded with
        `prepared=`; None where none of the newest 20 was.
        """
        return await newest_parts(self._resources, self.branch_uuid)

    async def compactions(
        self,
        limit: int = 20,
        *,
        begin: UUID | None = None,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> tuple[Compaction, ...]:
        """The newest compactions, newest first; with `begin` from the one with this id on.

        Raises InvalidArgument.
        """
        check_limit(limit)
        return await self._compactions.newest(limit, begin, status, reason)

    async def compaction_totals(
        self,
        *,
        status: CompactionStatus | None = None,
        reason: Reason | TreeReason | None = None,
    ) -> CompactionTotals:
        """How many compactions there are, what they cost and what they save. Raises
        InvalidArgument.
        """
        return await self._compactions.totals(status, reason)

    async def newest_events(
        self, limit: int = 100, *, before: int | None = None, kinds: Sequence[EventKind] = ()
    ) -> tuple[ContextEvent, ...]:
        """The newest events, newest first; with `before` those of smaller cursors. Raises
        InvalidArgument.
        """
        check_limit(limit)
        return await self._resources.events.newest(self.branch_uuid, limit, before, kinds)

    async def newest_artifacts(
        self, limit: int = 100, *, begin: str | None = None
    ) -> tuple[Artifact, ...]:
        """The same artifacts as `artifacts()`, newest first; with `begin` from the one with this
        handle on. Raises ArtifactNotFound, InvalidArgument.
        """
        check_limit(limit)
        return await self._resources.artifacts.newest(self.branch_uuid, limit, begin)

    async def find_artifact(self, handle: str) -> Artifact:
        """An artifact of the lineage without its content, by any handle that `load_artifact` takes.

        Raises ArtifactNotFound, InvalidArgument.
        """
        return await self._resources.artifacts.find(self.branch_uuid, handle)

    async def newest_checkpoints(self, limit: int = 100) -> tuple[CheckpointMark, ...]:
        """Where the newest checkpoints stand, newest first: also those of the branch that were
        replaced or rejected, and those that it inherited. Raises InvalidArgument.
        """
        check_limit(limit)
        shared = self._resources
        return await newest_checkpoint_marks(shared.pool, shared.tenant, self.branch_uuid, limit)

    @property
    def _compactions(self) -> CompactionHistory:
        return CompactionHistory(self._resources.pool, self._resources.tenant, self.branch_uuid)

    def _request(self, reason: Literal["turn", "request"]) -> CompactionRequest:
        label, conversation = shown_ids(self.policy, self.conversation_id, self.branch_id)
        return CompactionRequest(
            tenant=self._resources.tenant,
            branch_uuid=self.branch_uuid,
            policy=self.policy,
            reason=reason,
            label=label,
            conversation=conversation,
        )
