"""What is shown of a branch, read through the public client."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from durable_context import Branch, Checkpoint, CompactionPolicy, ContextClient, Summary
from durable_context.errors import CompactionPaused, CompactionTimeout
from durable_context.models import BranchState


class BranchReading(NamedTuple):
    """`inherited` are checkpoints that ancestors made; `due` says whether a segment is."""

    state: BranchState
    summaries: tuple[Summary, ...]
    checkpoints: tuple[Checkpoint, ...]
    inherited: frozenset[UUID]
    due: bool
    policy: CompactionPolicy


async def read_branch(client: ContextClient, branch: Branch) -> BranchReading:
    """Several reads, each of a moment of its own."""
    state = await branch.inspect()
    checkpoints = await branch.checkpoints()
    return BranchReading(
        state=state,
        summaries=await branch.summaries(),
        checkpoints=checkpoints,
        inherited=await _inherited(client, state),
        due=not await caught_up(branch, timedelta(0)),
        policy=branch.policy,
    )


async def caught_up(branch: Branch, timeout: timedelta) -> bool:
    """Whether nothing is due by then."""
    try:
        await branch.wait_until_compacted(timeout=timeout)
    except (CompactionTimeout, CompactionPaused):
        return False
    return True


async def _inherited(client: ContextClient, state: BranchState) -> frozenset[UUID]:
    """What the parent sees, too: it sees nothing that this branch made."""
    if len(state.lineage) == 1:
        return frozenset()
    parent = state.lineage[1]
    of_parent = await client.find_branch(parent.conversation_id, parent.branch_id)
    known = {checkpoint.checkpoint_id for checkpoint in await of_parent.checkpoints()}
    return frozenset(known.intersection(state.checkpoints))
