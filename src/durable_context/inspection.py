"""A branch as it stands, from the tables the runtime reads."""

from uuid import UUID

from durable_context.compaction.lag import lag_of
from durable_context.compaction.store import CompactionStore
from durable_context.control.history import CompactionHistory
from durable_context.control.pausing import Pausing
from durable_context.models import BranchState
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources

COMPACTIONS = 20


async def inspect_branch(
    resources: Resources, branch_uuid: UUID, policy: CompactionPolicy
) -> BranchState:
    """Several reads, each of a moment of its own. Raises UnknownBranch."""
    store = resources.store
    history = CompactionHistory(resources.pool, resources.tenant, branch_uuid)
    figures = await resources.branches.head(branch_uuid)
    lineage = await resources.branches.lineage(branch_uuid)
    checkpoints = await store.checkpoints(branch_uuid)
    checkpoint = checkpoints[-1] if checkpoints else None
    covered = checkpoint.turn_no if checkpoint else 0
    tail = await store.turns(branch_uuid, covered + 1, figures.head_turn)
    compaction = CompactionStore(resources.pool, resources.tenant, branch_uuid)
    sizes = await compaction.sizes(covered, len(tail))
    return BranchState(
        conversation_id=lineage[0].conversation_id,
        branch_id=lineage[0].branch_id,
        branch_uuid=branch_uuid,
        encoding=figures.encoding,
        lineage=lineage,
        head_turn=figures.head_turn,
        head_tokens=figures.head_tokens,
        open_run_turn=figures.open_run_turn,
        checkpoint=checkpoint,
        checkpoints=tuple(one.checkpoint_id for one in checkpoints),
        frontier=tuple(await compaction.frontier(covered)),
        tail=tail,
        lag=lag_of(tail, figures.open_run_turn, policy, sizes),
        artifacts=await resources.artifacts.list(branch_uuid),
        compactions=await history.newest(COMPACTIONS),
        pauses=await Pausing(resources.pool, resources.tenant).of_branch(branch_uuid),
    )
