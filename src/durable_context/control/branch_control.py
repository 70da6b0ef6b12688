"""What operators do with one branch: the part of `Branch` that agents seldom need."""

from datetime import timedelta
from typing import Literal
from uuid import UUID

from durable_context.contracts import CompactionRequest
from durable_context.control.pausing import Pausing
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources


class BranchControl:
    """Base of `Branch`."""

    branch_uuid: UUID
    policy: CompactionPolicy
    _resources: Resources

    async def pause(self, because: str | None = None) -> None:
        """Compact nothing of the branch until `resume`. Turns are recorded and prompts prepared as
        before; a compaction that is under way ends.

        Idempotent: paused before, it stays so since then, and a reason replaces the one there is.
        Forks are branches of their own. Raises InvalidArgument, UnknownBranch.
        """
        await self._pausing.pause_branch(self.branch_uuid, because)

    async def resume(self) -> None:
        """End the pause, if there is one, and ask Temporal for what is due by now; where it cannot
        be asked, the next turn or the catch-up sweep does. A pause of the tenant stays.

        Raises UnknownBranch.
        """
        head_turn = await self._pausing.resume_branch(self.branch_uuid)
        if self._resources.requests is not None:
            await self._resources.requests.hint(self._request("turn"), head_turn, timedelta(0))

    @property
    def _pausing(self) -> Pausing:
        return Pausing(self._resources.pool, self._resources.tenant)

    def _request(self, reason: Literal["turn", "request"]) -> CompactionRequest:
        raise NotImplementedError

    def _label(self) -> str:
        """How the branch is called in Temporal; empty unless the policy exposes ids."""
        raise NotImplementedError
