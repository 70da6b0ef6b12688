"""Compaction of one segment in four steps, each safe to repeat: plan, summarize, commit, index.
Artifacts that are due with it are summarized before its turns are.

Correctness rests on the database: a draft is kept under the hash of its input before anyone hears
of it, and commit is a compare-and-swap on the branch. Readers see nothing until then.
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from durable_context.artifacts.batch import ArtifactBatch
from durable_context.artifacts.contents import ContentStore
from durable_context.artifacts.index import ArtifactIndex
from durable_context.artifacts.summaries import ArtifactSummaries
from durable_context.compaction import node_index
from durable_context.compaction.checkpoints import checkpoint_after
from durable_context.compaction.conversation import OfBranch, shown_conversation
from durable_context.compaction.drafting import Drafting
from durable_context.compaction.lag import next_segment
from durable_context.compaction.making import MakeSummarizer, NodeMaking
from durable_context.compaction.rebuilding import Rebuilding
from durable_context.compaction.replacing import Replacing
from durable_context.compaction.segments import TurnSize, completed_nodes
from durable_context.compaction.spending import spent
from durable_context.compaction.store import BranchHead, CompactionStore, RunId
from durable_context.compaction.worth import merge_worth, note_skipped_node
from durable_context.contracts import (
    ArtifactsRequest,
    ArtifactsResult,
    CommitRequest,
    CommitResult,
    IndexRequest,
    NodeRange,
    Plan,
    PlanRequest,
    SummarizeRequest,
    SummarizeResult,
)
from durable_context.contracts.rebuild import (
    RebuildPlan,
    RebuildRequest,
    ReplaceRequest,
    ReplaceResult,
)
from durable_context.database import Pool
from durable_context.embeddings import Embedder
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.errors import StalePlan
from durable_context.models import Summary
from durable_context.summarizers import Summarizer
from durable_context.summarizers.chain import summarizer_from_specs
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.tokens import TokenCounter, token_counter

OUTSIDE_TEMPORAL = RunId()
PUBLISHED_MEANWHILE = 5
"""Times that a commit starts over because older nodes were replaced under its hands."""


class Compactor:
    """Compacts branches of any tenant. `summarizer` is asked; `fallback` stands in for it.

    `contents` is where contents of artifacts are read, by default as `ContentStore()` finds it.
    With an `embedder` leaves get vectors, where the database keeps any. `make_summarizer` makes
    those that a rebuild names.
    """

    def __init__(
        self,
        pool: Pool,
        summarizer: Summarizer,
        *,
        fallback: Summarizer | None = None,
        contents: ContentStore | None = None,
        embedder: Embedder | None = None,
        counters: Callable[[str], TokenCounter] = token_counter,
        make_summarizer: MakeSummarizer = summarizer_from_specs,
    ) -> None:
        self._pool = pool
        self._drafting = Drafting(summarizer, fallback or ExtractiveSummarizer())
        self._making = NodeMaking(pool, self._drafting, make_summarizer, counters)
        self._contents = contents or ContentStore()
        self._embeddings = LeafEmbeddings(pool, embedder) if embedder else None
        self._counters = counters

    async def plan(self, request: PlanRequest, by: RunId = OUTSIDE_TEMPORAL) -> Plan:
        """The next due segment with the merges it completes, and the artifacts that are due; an
        empty plan when nothing is, or the branch is paused.
        """
        store = CompactionStore(self._pool, request.tenant, request.branch_uuid)
        head = await store.head()
        if head.is_paused:
            return Plan(checkpoint_turn=head.checkpoint_turn, paused=True)
        segment = await next_segment(store, head, request.policy)
        plan = Plan(checkpoint_turn=head.checkpoint_turn)
        if segment:
            plan = await self._plan_segment(store, head, segment, request, by)
        artifacts = ArtifactSummaries(self._pool, request.tenant, request.branch_uuid)
        due = await artifacts.count_due(plan.turns, self._drafting.recipe)
        if segment or due:
            return plan.model_copy(update={"artifacts": due})
        unindexed = await node_index.unindexed(self._pool, request.tenant, request.branch_uuid)
        if not unindexed:
            await store.note_skipped(head, request.reason)
        return plan.model_copy(update={"unindexed": unindexed})

    async def summarize_artifacts(
        self, request: ArtifactsRequest, *, failing_for: timedelta = timedelta(0)
    ) -> ArtifactsResult:
        """Make a batch of summaries of artifacts, each stored when it is made."""
        head = await CompactionStore(self._pool, request.tenant, request.branch_uuid).head()
        counter = self._counters(head.encoding)
        batch = ArtifactBatch(
            self._pool, request, self._drafting, self._contents, counter, failing_for
        )
        return await batch.run()

    async def summarize(
        self, request: SummarizeRequest, *, failing_for: timedelta = timedelta(0)
    ) -> SummarizeResult:
        """Make one node, or find it made. `failing_for`: how long earlier attempts have failed."""
        return await self._making.make(request, failing_for)

    async def commit(self, request: CommitRequest) -> CommitResult:
        """Publish the drafts with a checkpoint. Repeated, it returns the checkpoint that is there.

        Raises StalePlan when the branch was compacted otherwise since the plan.
        """
        store = CompactionStore(self._pool, request.tenant, request.branch_uuid)
        nodes = await store.summaries(request.summary_ids)
        if not nodes or len(nodes) != len(request.summary_ids):
            raise StalePlan(f"of {len(request.summary_ids)} planned nodes {len(nodes)} exist")
        try:
            checkpoint_id = await self._publish_once_more(store, request, nodes)
        except StalePlan:
            published = await store.checkpoint(nodes[0].to_turn)
            if published is None:
                raise
            checkpoint_id = published.checkpoint_id
        head = await store.head()
        return CommitResult(
            checkpoint_id=checkpoint_id,
            checkpoint_turn=nodes[0].to_turn,
            tokens_before=nodes[0].covered_tokens,
            tokens_after=nodes[0].token_count,
            more=bool(await next_segment(store, head, request.policy)),
            spending=await spent(
                self._pool, request.tenant, request.branch_uuid, [request.compaction_id]
            ),
        )

    async def index(self, request: IndexRequest) -> None:
        """Make the published leaves inside the range retrievable, and summarized artifacts."""
        await node_index.add_nodes(self._pool, request.tenant, request.branch_uuid, request.to_turn)
        index = ArtifactIndex(
            *(self._pool, request.tenant, request.branch_uuid),
            *(self._contents, self._drafting.recipe),
        )
        await index.add(request.to_turn)
        if self._embeddings:
            await self._embeddings.add(request.tenant, request.branch_uuid, request.to_turn)

    async def plan_rebuild(
        self, request: RebuildRequest, by: RunId = OUTSIDE_TEMPORAL
    ) -> RebuildPlan:
        """The next batch of nodes to make anew or to merge; an empty one when nothing is due."""
        drafting = self._making.drafting(request.summarizers)
        return await Rebuilding(self._pool, request, drafting).plan(by)

    async def replace(self, request: ReplaceRequest) -> ReplaceResult:
        """Publish what was made, with the newest checkpoint as it is then. Repeated, it returns the
        same. Raises StalePlan when something fits nowhere any more.
        """
        return await Replacing(self._pool, request, self._counters).replace()

    async def shown_conversation(self, request: OfBranch) -> str:
        """For spans: the conversation's id where policy exposes it, else the branch's."""
        return await shown_conversation(self._pool, request)

    async def _plan_segment(
        self,
        store: CompactionStore,
        head: BranchHead,
        segment: list[TurnSize],
        request: PlanRequest,
        by: RunId,
    ) -> Plan:
        leaf = NodeRange(level=0, from_turn=segment[0].turn_no, to_turn=segment[-1].turn_no)
        frontier = await store.frontier_ranges(head.checkpoint_turn)
        tokens = sum(turn.token_count for turn in segment)
        nodes = completed_nodes(frontier, leaf, request.policy.fan_out)
        return Plan(
            nodes=await self._worth_making(store, head, nodes, request),
            compaction_id=await store.join_compaction(
                leaf, tokens, request.reason, by, request.focus_id
            ),
            checkpoint_turn=head.checkpoint_turn,
            tokens_before=tokens,
            recipe=self._drafting.recipe,
        )

    async def _worth_making(
        self,
        store: CompactionStore,
        head: BranchHead,
        nodes: tuple[NodeRange, ...],
        request: PlanRequest,
    ) -> tuple[NodeRange, ...]:
        """The leaf, and its merges up to the first that cannot pay: the nodes pile up until one
        of more of them does.
        """
        for place, node in enumerate(nodes[1:], start=1):
            why = await merge_worth(
                store, head, node, request.policy, asks_model=self._drafting.asks_model
            )
            if why is not None:
                target = (self._pool, request.tenant, request.branch_uuid)
                await note_skipped_node(*target, node, "merge", why)
                return nodes[:place]
        return nodes

    async def _publish_once_more(
        self, store: CompactionStore, request: CommitRequest, nodes: list[Summary]
    ) -> UUID:
        """Where the tail is as planned, but older nodes were replaced while the new checkpoint was
        made, it is made again.
        """
        for _ in range(PUBLISHED_MEANWHILE):
            before = (await store.head()).publication
            try:
                return await self._publish(store, request, nodes)
            except StalePlan:
                head = await store.head()
                if head.publication == before or head.checkpoint_turn != request.checkpoint_turn:
                    raise
        return await self._publish(store, request, nodes)

    async def _publish(
        self, store: CompactionStore, request: CommitRequest, nodes: list[Summary]
    ) -> UUID:
        """What is expensive is computed before the branch is locked: its inputs are immutable."""
        head = await store.head()
        if head.checkpoint_turn != request.checkpoint_turn:
            raise StalePlan(
                f"planned from turn {request.checkpoint_turn}, the newest checkpoint is at"
                f" {head.checkpoint_turn}"
            )
        previous = await store.checkpoint(request.checkpoint_turn)
        older = await store.frontier(request.checkpoint_turn)
        ledger = await store.ledger(nodes[0].from_turn, nodes[0].to_turn)
        counter, policy = self._counters(head.encoding), request.policy
        new = checkpoint_after(previous, head.publication, older, nodes, ledger, counter, policy)
        return await store.publish(request.compaction_id, new)
