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
from durable_context.compaction.draft_store import DraftParts, DraftStore, NewSummary
from durable_context.compaction.drafting import Drafted, Drafting
from durable_context.compaction.lag import next_segment
from durable_context.compaction.segments import TurnSize, completed_nodes
from durable_context.compaction.source import SummarySource, load_source
from durable_context.compaction.store import BranchHead, CompactionStore, RunId
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
from durable_context.database import Pool
from durable_context.embeddings import Embedder
from durable_context.embeddings.indexing import LeafEmbeddings
from durable_context.errors import StalePlan, SummarizerError, SummarizerRejected
from durable_context.models import Summary
from durable_context.summarizers import Summarizer, SummaryDraft, SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer
from durable_context.tokens import TokenCounter, token_counter

OUTSIDE_TEMPORAL = RunId()
PUBLISHED_MEANWHILE = 5
"""Times that a commit starts over because older nodes were replaced under its hands."""


class Compactor:
    """Compacts branches of any tenant. `summarizer` is asked; `fallback` stands in for it.

    `contents` is where contents of artifacts are read, by default as `ContentStore()` finds it.
    With an `embedder` leaves get vectors, where the database keeps any.
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
    ) -> None:
        self._pool = pool
        self._drafting = Drafting(summarizer, fallback or ExtractiveSummarizer())
        self._contents = contents or ContentStore()
        self._embeddings = LeafEmbeddings(pool, embedder) if embedder else None
        self._counters = counters

    async def plan(self, request: PlanRequest, by: RunId = OUTSIDE_TEMPORAL) -> Plan:
        """The next due segment with the merges it completes, and the artifacts that are due; an
        empty plan when nothing is.
        """
        store = CompactionStore(self._pool, request.tenant, request.branch_uuid)
        head = await store.head()
        segment = await next_segment(store, head, request.policy)
        plan = Plan(checkpoint_turn=head.checkpoint_turn)
        if segment:
            plan = await self._plan_segment(store, head, segment, request, by)
        artifacts = ArtifactSummaries(self._pool, request.tenant, request.branch_uuid)
        due = await artifacts.count_due(plan.turns, self._drafting.recipe)
        if not segment and not due:
            await store.note_skipped(head, request.reason)
        return plan.model_copy(update={"artifacts": due})

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
        drafts = DraftStore(self._pool, request.tenant, request.branch_uuid)
        recipe = self._drafting.recipe
        source = await load_source(self._pool, request, recipe)
        found = await drafts.find(request.node, recipe, source.input_hash)
        if found is None:
            inherited = await drafts.inherited(request.node, recipe, source.input_hash)
            if inherited is not None:
                found = await drafts.keep(_adopted(inherited, request.node, source))
        if found is not None:
            return _result(found, source, reused=True)
        new = await self._made(request, drafts, source, failing_for)
        return _result(await drafts.keep(new), source, reused=False)

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
        )

    async def index(self, request: IndexRequest) -> None:
        """Make the published leaves inside the range retrievable, and summarized artifacts."""
        await node_index.add_nodes(
            self._pool, request.tenant, request.branch_uuid, request.from_turn, request.to_turn
        )
        index = ArtifactIndex(
            *(self._pool, request.tenant, request.branch_uuid),
            *(self._contents, self._drafting.recipe),
        )
        await index.add(request.to_turn)
        if self._embeddings:
            await self._embeddings.add(request.tenant, request.branch_uuid, request.to_turn)

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
        return Plan(
            nodes=completed_nodes(frontier, leaf, request.policy.fan_out),
            compaction_id=await store.join_compaction(leaf, tokens, request.reason, by),
            checkpoint_turn=head.checkpoint_turn,
            tokens_before=tokens,
        )

    async def _made(
        self,
        request: SummarizeRequest,
        drafts: DraftStore,
        source: SummarySource,
        failing_for: timedelta,
    ) -> NewSummary:
        head = await CompactionStore(self._pool, request.tenant, request.branch_uuid).head()
        drafted = await self._draft(request, drafts, source, head.encoding, failing_for)
        return NewSummary(
            node=request.node,
            recipe=self._drafting.recipe,
            input_hash=source.input_hash,
            draft=drafted.draft,
            token_count=self._counters(head.encoding).count(drafted.draft.text),
            input_tokens=source.input_tokens,
            covered_tokens=source.covered_tokens,
            degraded=drafted.degraded,
        )

    async def _draft(
        self,
        request: SummarizeRequest,
        drafts: DraftStore,
        source: SummarySource,
        encoding: str,
        failing_for: timedelta,
    ) -> Drafted:
        """Ask, and note on the compaction how it went."""
        recipe = self._drafting.recipe
        parts = DraftParts(self._pool, request.tenant, request.branch_uuid, recipe)
        asked = _summary_request(request, source, encoding, parts)
        try:
            drafted = await self._drafting.draft(asked, request.policy, failing_for)
        except SummarizerError as error:
            await drafts.count_attempt(
                request.compaction_id, recipe, error.attempts, str(error), failed=True
            )
            if isinstance(error, SummarizerRejected):
                await drafts.fail(request.compaction_id, str(error))
            raise
        failed = drafted.error
        calls = (*(failed.attempts if failed else ()), *drafted.draft.attempts)
        message = str(failed) if failed else None
        await drafts.count_attempt(request.compaction_id, recipe, calls, message, failed=False)
        return drafted

    async def _publish_once_more(
        self, store: CompactionStore, request: CommitRequest, nodes: list[Summary]
    ) -> UUID:
        """Where the tail is as planned, but older nodes were replaced while the new checkpoint was
        made, it is made again.
        """
        for _ in range(PUBLISHED_MEANWHILE):
            try:
                return await self._publish(store, request, nodes)
            except StalePlan:
                if (await store.head()).checkpoint_turn != request.checkpoint_turn:
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


def _summary_request(
    request: SummarizeRequest, source: SummarySource, encoding: str, parts: DraftParts
) -> SummaryRequest:
    return SummaryRequest(
        level=request.node.level,
        from_turn=request.node.from_turn,
        to_turn=request.node.to_turn,
        turns=source.turns,
        nodes=source.nodes,
        ledger=source.ledger,
        encoding=encoding,
        max_tokens=request.policy.summary_max_tokens,
        headline_max_tokens=request.policy.headline_max_tokens,
        timeout=request.policy.summarizer_timeout,
        parts=parts,
    )


def _adopted(inherited: Summary, node: NodeRange, source: SummarySource) -> NewSummary:
    """An ancestor's text as the branch's own draft: no call was made for it."""
    return NewSummary(
        node=node,
        recipe=inherited.recipe,
        input_hash=source.input_hash,
        draft=SummaryDraft(
            headline=inherited.headline, text=inherited.text, made_by=inherited.made_by
        ),
        token_count=inherited.token_count,
        input_tokens=source.input_tokens,
        covered_tokens=source.covered_tokens,
        degraded=False,
    )


def _result(summary: Summary, source: SummarySource, *, reused: bool) -> SummarizeResult:
    return SummarizeResult(
        summary_id=summary.summary_id,
        made_by=summary.made_by,
        recipe=summary.recipe,
        degraded=summary.degraded,
        reused=reused,
        tokens_before=source.input_tokens,
        tokens_after=summary.token_count,
    )
