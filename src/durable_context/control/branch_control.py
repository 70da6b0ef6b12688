"""What operators do with one branch: the part of `Branch` that agents seldom need."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from durable_context.arguments import seconds
from durable_context.compaction.focus import checked_focus, store_focus
from durable_context.compaction.store import CompactionStore
from durable_context.contracts import CompactionProgress, CompactionRequest
from durable_context.contracts.rebuild import RebuildProgress, RebuildRequest, RebuildResult
from durable_context.control.branch_history import BranchHistory
from durable_context.control.diffing import Diff, Diffing, diff_checkpoints, diff_prompts
from durable_context.control.foreseen_rebuild import ForeseenRebuild, foresee_rebuild
from durable_context.control.pausing import Pausing, checked_reason
from durable_context.control.rebuild_requests import rebuild_request
from durable_context.control.reversal import Reversal
from durable_context.control.reverting import Reverting
from durable_context.control.seen_prompt import seen_prompt
from durable_context.errors import CompactionUnavailable
from durable_context.looks.branch_looks import BranchLooks
from durable_context.models import Checkpoint, Pause
from durable_context.pins import Pin, PinStore, check_pinned_turn
from durable_context.telemetry.runtime import observed_rebuild
from durable_context.verification.findings import Verified
from durable_context.verification.verifying import verify_branch

if TYPE_CHECKING:
    from durable_context.compaction.requests import CompactionRequests

Asked = TypeVar("Asked", CompactionRequest, RebuildRequest)


class BranchControl(BranchLooks, BranchHistory):
    """Base of `Branch`."""

    async def pause(self, because: str | None = None) -> Pause:
        """Compact nothing of the branch until `resume`. Turns are recorded and prompts prepared as
        before; a compaction that is under way ends.

        Idempotent: paused before, it stays so since then, and a reason replaces the one there is.
        Forks are branches of their own. Raises InvalidArgument, UnknownBranch.
        """
        return await self._pausing.pause_branch(self.branch_uuid, because)

    async def resume(self) -> bool:
        """End the pause, if there is one, and ask Temporal for what is due by now: whether it
        could be asked. If not, the next turn or the catch-up sweep does. A pause of the tenant
        stays. Idempotent. Raises UnknownBranch.
        """
        head_turn = await self._pausing.resume_branch(self.branch_uuid)
        requests = self._resources.requests
        if requests is None:
            return False
        return await requests.hint(self._request("turn"), head_turn, timedelta(0))

    async def pauses(self) -> tuple[Pause, ...]:
        """The branch's own pause, then its tenant's, as far as there are any."""
        return await self._pausing.of_branch(self.branch_uuid)

    async def compacting(self) -> CompactionProgress | None:
        """Where the compaction that is under way stands, as far as it is known: None where there
        is none, or Temporal or its workers do not answer within seconds.
        """
        requests = self._resources.requests
        return await requests.progress(self.branch_uuid) if requests is not None else None

    @observed_rebuild
    async def rebuild(
        self,
        from_turn: int = 1,
        to_turn: int | None = None,
        *,
        summarizers: Sequence[str] | None = None,
        focus: str | None = None,
        timeout: timedelta | float = 600,
    ) -> RebuildResult:
        """Make the branch's summaries of these turns anew, up to the newest checkpoint, and those
        above them, and wait: `timeout` in seconds or as a timedelta.

        Leaves are read from raw turns. Each node is a new revision, published in batches with the
        newest checkpoint; prompts show the old nodes until then. `summarizers` are specs such as
        "model:openai:gpt-4o-mini", by default the worker's; their API keys are the worker's.
        `focus`: what the summaries are to keep in view, in up to 500 characters. What a fork
        inherited is its ancestors' to rebuild. The same rebuild that is under way is waited for.
        Raises InvalidArgument, CompactionUnavailable, CompactionTimeout (it goes on),
        CompactionFailed, CompactionPaused.
        """
        asked = rebuild_request(self._request("request"), from_turn, to_turn, summarizers)
        bound = seconds(timeout)
        requests, asked = await self._to_ask(asked, focus)
        result = await requests.rebuild(asked, bound)
        if result.paused:
            await self._pausing.refuse(self.branch_uuid, self._name)
        return result

    async def foresee_rebuild(
        self, from_turn: int = 1, to_turn: int | None = None
    ) -> ForeseenRebuild:
        """What `rebuild` would make anew, and about how much it would read. One read, without
        Temporal. Raises InvalidArgument.
        """
        asked = rebuild_request(self._request("request"), from_turn, to_turn, None)
        return await foresee_rebuild(self._resources.pool, asked)

    async def rebuilding(self) -> RebuildProgress | None:
        """Where the rebuild or upgrade that is under way stands, as far as it is known: None where
        there is none, or Temporal or its workers do not answer within seconds.
        """
        requests = self._resources.requests
        return await requests.rebuilding(self.branch_uuid) if requests is not None else None

    async def pin(self, turn_no: int, *, fact: str | None = None) -> Pin:
        """Keep a turn, or the fact of its ledger with this value, word for word in every prompt of
        the branch from that turn on, wherever the turn does not stand raw anyway.

        No budget shortens it: what does not fit beside it is a BudgetExceeded. Compaction goes on
        as without it. Forks made later begin with it. Idempotent; 100 pins at most. Raises
        InvalidArgument, UnknownBranch.
        """
        check_pinned_turn(turn_no)
        await self._tell_pending()
        return await self._pins.pin(self.branch_uuid, turn_no, fact)

    async def unpin(self, turn_no: int, *, fact: str | None = None) -> bool:
        """Take back what `pin` did with the same arguments; whether there was such a pin. Pins of
        forks stay. Idempotent. Raises InvalidArgument, UnknownBranch.
        """
        check_pinned_turn(turn_no)
        await self._tell_pending()
        return await self._pins.unpin(self.branch_uuid, turn_no, fact)

    async def pins(self) -> tuple[Pin, ...]:
        """What is pinned, by turn, a turn before its facts. Raises UnknownBranch."""
        return await self._pins.pins(self.branch_uuid)

    async def verify(self) -> Verified:
        """Compare what the branch wrote itself with its hashes, its numbers and its ancestors, and
        read all contents of its artifacts.

        Repairs nothing. Each finding is a `damaged` event, once for as long as it stands. Reads the
        whole branch: about a second for 10,000 short turns. Raises UnknownBranch,
        ArtifactStoreUnavailable.
        """
        shared = self._resources
        return await verify_branch(shared.pool, shared.contents, shared.tenant, self.branch_uuid)

    @property
    def _pins(self) -> PinStore:
        return PinStore(self._resources.pool, self._resources.tenant)

    async def revert(self, to: int | UUID, *, because: str | None = None) -> Checkpoint | None:
        """Go back to an older checkpoint, by its turn or its id, or with 0 to none at all; a fork
        goes back as far as the checkpoint that it began with.

        The branch's summaries and checkpoints stand as when that was published, and what was
        replaced since is published anew, as copies. Later ones are rejected for good: they stay for
        audit, and neither prompts and searches nor the next compaction find them. Turns, artifacts
        and forks stay as they are. Returns the checkpoint that is the newest now. Idempotent.
        Raises CheckpointNotFound, InvalidArgument, UnknownBranch.
        """
        reason = checked_reason(because)
        await self._tell_pending()
        reversal = await self._reverting.revert(to, reason)
        store = CompactionStore(self._resources.pool, self._resources.tenant, self.branch_uuid)
        return await store.checkpoint(reversal.to_turn)

    async def foresee_revert(self, to: int | UUID) -> Reversal:
        """What `revert` would do. Raises as it does."""
        return await self._reverting.foresee(to)

    async def diff(
        self,
        a: int | UUID,
        b: int | UUID,
        *,
        prompts: bool = False,
        other: "BranchControl | None" = None,
    ) -> Diff:
        """What differs between two checkpoints, by their turns or ids, rejected ones included; turn
        0 is the beginning.

        `prompts`: between what the model saw at turns `a` and `b`, as the manifests that were
        recorded with them tell; each side says how near its text comes to that. `other`: the branch
        that `b` is of. Raises CheckpointNotFound, InvalidArgument.
        """
        other = other or self
        if not prompts:
            sides = [
                await Diffing(branch._resources, branch.branch_uuid).side(at)
                for branch, at in ((self, a), (other, b))
            ]
            return await diff_checkpoints(*sides)
        seen = [
            await seen_prompt(branch._resources, branch._request("request"), turn)
            for branch, turn in ((self, a), (other, b))
        ]
        return await diff_prompts(*seen)

    @property
    def _reverting(self) -> Reverting:
        return Reverting(self._resources.pool, self._resources.tenant, self.branch_uuid)

    @property
    def _pausing(self) -> Pausing:
        return Pausing(self._resources.pool, self._resources.tenant)

    async def _to_ask(self, asked: Asked, focus: str | None) -> "tuple[CompactionRequests, Asked]":
        """Who is to be asked, and for what: with its focus stored, and only where none is paused.

        Raises InvalidArgument, CompactionUnavailable, CompactionPaused.
        """
        shared = self._resources
        text = None if focus is None else checked_focus(focus)
        if shared.requests is None:
            raise CompactionUnavailable("this client was made with temporal=None")
        await self._pausing.refuse(self.branch_uuid, self._name)
        if text is None:
            return shared.requests, asked
        focus_id = await store_focus(shared.pool, shared.tenant, self.branch_uuid, text)
        return shared.requests, asked.model_copy(update={"focus_id": focus_id})

    @property
    def _name(self) -> str:
        """How messages call the branch."""
        return f"branch {self.branch_id!r} of {self.conversation_id!r}"

    async def _tell_pending(self) -> None:
        """Events that prepare(), which writes nothing, left for the next write."""
        await self._resources.pending_events.flush(self._resources.events, self.branch_uuid)
