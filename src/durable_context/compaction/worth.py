"""Whether work on the summary tree can pay. Every statement filters on the tenant.

Figures are tokens, so that they hold where no price is known: what a model writes costs about five
times what it reads, with every large provider. What is saved is saved again with each call, and as
many calls are expected as there were: of a conversation nothing tells better how long it goes on
than how long it has. Without a turn for IDLE_AFTER none are. Leaves are not asked about after
turns: they end the lag.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from durable_context.compaction.counting import count_skipped
from durable_context.compaction.store import BranchHead, CompactionStore, MergeSizes
from durable_context.contracts import NodeRange, TreeReason
from durable_context.database import Pool, acquired
from durable_context.models import Summary
from durable_context.policy import CompactionPolicy
from durable_context.summarizers.extractive import RECIPE as EXTRACTIVE

IDLE_AFTER = timedelta(days=30)
WRITTEN_WEIGHT = 5
"""What a token costs that a model writes, in tokens that it reads."""
NEARLY_FULL = 0.75
"""Of `checkpoint_max_tokens`: from here on a merge saves more than tokens, because beyond the cap
the oldest nodes stand as headlines.
"""


async def merge_worth(
    store: CompactionStore,
    head: BranchHead,
    node: NodeRange,
    policy: CompactionPolicy,
    *,
    asks_model: bool,
) -> str | None:
    """Why making `node` of the nodes inside it cannot pay; None if it may.

    One read. Children that are yet to be made count as the others do on average.
    """
    sizes = await store.merge_sizes(node, head.checkpoint_turn)
    if sizes.checkpoint >= NEARLY_FULL * policy.checkpoint_max_tokens:
        return None
    return _idle(sizes.last_turn_at) or merge_loss(sizes, node.to_turn, policy, asks_model)


def merge_loss(
    sizes: MergeSizes, calls: int, policy: CompactionPolicy, asks_model: bool
) -> str | None:
    """Why a merge would cost more than that many calls save.

    At best the merged node is as large as one of its nodes: all have the same cap. What prompts
    show of those is a prefix that a provider may have in its cache, and reads anew.
    """
    merged = min(sizes.average, policy.summary_max_tokens)
    saved = sizes.children - merged
    cost = sizes.shown + (sizes.children + WRITTEN_WEIGHT * merged if asks_model else 0)
    if saved * calls >= cost:
        return None
    return f"it costs {cost} tokens and saves {saved} with each of about {calls} calls"


async def upgrade_worth(
    pool: Pool, tenant: str, branch_uuid: UUID, node: Summary, *, asks_model: bool
) -> str | None:
    """Why making a published node anew cannot pay; None if it may.

    It pays in better words, as long as anybody reads them: the branch, or a fork that can take
    them over. A node that coarser ones cover is read through them.
    """
    if not asks_model and node.level == 0:
        if node.made_by == EXTRACTIVE:
            return "no model would be asked, and the same words would come out"
        if not node.made_by.startswith("extractive"):
            return f"{node.made_by!r:.80} wrote it, and no model would be asked now"
    async with acquired(pool) as connection:
        last_turn_at = await connection.fetchval(
            "select max(coalesce(b.last_turn_at, b.created_at)) from durable_context.lineage l"
            " join durable_context.branches b"
            " on b.tenant = l.tenant and b.branch_uuid = l.branch_uuid"
            " where l.tenant = $1 and l.ancestor_uuid = $2 and l.compacted_turn >= $3",
            tenant,
            branch_uuid,
            node.to_turn,
        )
    return _idle(last_turn_at)


async def note_skipped_node(
    pool: Pool, tenant: str, branch_uuid: UUID, node: NodeRange, reason: TreeReason, why: str
) -> None:
    """A row that says so, and its event: once for a range, however often it is skipped."""
    async with acquired(pool) as connection:
        noted = await connection.fetch(
            "with locked as materialized (select tenant, branch_uuid"
            " from durable_context.branches where tenant = $1 and branch_uuid = $2"
            " for no key update)"
            " insert into durable_context.compactions as c (tenant, branch_uuid, level, from_turn,"
            " to_turn, status, reason, error, finished_at)"
            " select l.tenant, l.branch_uuid, $3, $4, $5, 'skipped', $6, $7, clock_timestamp()"
            " from locked l on conflict do nothing returning c.compaction_id",
            tenant,
            branch_uuid,
            node.level,
            node.from_turn,
            node.to_turn,
            reason,
            why,
        )
    if noted:
        count_skipped(reason)


def _idle(last_turn_at: datetime | None) -> str | None:
    if last_turn_at is None or datetime.now(UTC) - last_turn_at < IDLE_AFTER:
        return None
    return f"nobody took a turn since {last_turn_at:%Y-%m-%d}: no further calls are expected"
