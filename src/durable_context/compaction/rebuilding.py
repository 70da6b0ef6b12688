"""What of a branch's summary tree is to be made anew or merged next: a batch of nodes of one level,
the lowest first, so that coarser nodes are made from what replaced the finer ones.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from durable_context.compaction.drafting import Drafting
from durable_context.compaction.due_nodes import DueNode, DueNodes
from durable_context.compaction.following import follow
from durable_context.compaction.store import BranchHead, CompactionStore, RunId
from durable_context.compaction.worth import merge_worth, note_skipped_node, upgrade_worth
from durable_context.contracts import NodeRange
from durable_context.contracts.rebuild import RebuildPlan, RebuildRequest
from durable_context.database import Pool
from durable_context.models import Summary

BATCH: Final = 16
"""Nodes published together: their ids fit into one payload."""
LOOKS: Final = 200
"""Nodes that cannot pay, after which a look ends."""


class _Batch:
    """Nodes of one level, with the tokens of their input. `max_tokens`: None for no bound."""

    def __init__(self, max_tokens: int | None = None) -> None:
        self.level = 0
        self.nodes: list[tuple[int, int, int]] = []
        self.left = 0
        self.skipped = 0
        self.is_over = False
        self._rest = max_tokens

    @property
    def is_full(self) -> bool:
        return len(self.nodes) == BATCH or self.skipped >= LOOKS

    @property
    def is_spent(self) -> bool:
        return self._rest is not None and self._rest <= 0

    def add(self, node: NodeRange, tokens: int) -> None:
        self.level = node.level
        self.nodes.append((node.from_turn, node.to_turn, tokens))

    def pays(self, tokens: int) -> bool:
        """Whether so much is left. Nothing is, after the first time that it was not."""
        if self._rest is None:
            return True
        pays = tokens <= self._rest
        self._rest = self._rest - tokens if pays else 0
        return pays


class Rebuilding:
    """Plans one branch's rebuild, look by look."""

    def __init__(self, pool: Pool, request: RebuildRequest, drafting: Drafting) -> None:
        self._pool = pool
        self._request = request
        self._drafting = drafting
        self._store = CompactionStore(pool, request.tenant, request.branch_uuid)

    async def plan(self, by: RunId) -> RebuildPlan:
        """The next batch. The first look of an upgrade takes over what ancestors replaced; after
        a revert nothing is due any more: nobody asked that for what stands there now.
        """
        head = await self._store.head()
        if head.is_paused:
            return RebuildPlan(checkpoint_turn=head.checkpoint_turn, paused=True)
        if self._request.since is None:
            head = await self._begin(head, by)
        due = DueNodes(self._pool, self._request)
        if await self._store.was_reverted(self._request.since or 0):
            await due.leave_behind(by)
            return RebuildPlan(checkpoint_turn=head.checkpoint_turn, reverted=True)
        look = self._merges if self._request.reason == "merge" else self._outdated
        batch = await look(head, due)
        if not batch.nodes and not batch.is_over:
            await due.leave_behind(by)
        return RebuildPlan(
            level=batch.level,
            nodes=await due.join(batch.level, batch.nodes, by) if batch.nodes else (),
            checkpoint_turn=head.checkpoint_turn,
            since=self._request.since or 0,
            begun_at=self._request.begun_at,
            left=batch.left,
            skipped=batch.skipped,
            more=batch.is_over,
            is_stale=await self._is_stale(head),
            recipe=self._drafting.recipe,
        )

    async def _begin(self, head: BranchHead, by: RunId) -> BranchHead:
        request = self._request
        await DueNodes(self._pool, request).leave_behind(by)
        if request.reason == "upgrade":
            await follow(self._pool, request.tenant, request.branch_uuid)
            head = await self._store.head()
        now = await DueNodes(self._pool, request).now()
        began = {"since": head.publication, "begun_at": now}
        self._request = request.model_copy(update=began)
        return head

    async def _is_stale(self, head: BranchHead) -> bool:
        """Whether nodes of the branch's own newest checkpoint were replaced."""
        newest = await self._store.own_checkpoint(head.checkpoint_turn)
        if newest is None:
            return False
        nodes = await self._store.frontier(head.checkpoint_turn)
        return [node.summary_id for node in nodes] != list(newest.frontier)

    async def _outdated(self, head: BranchHead, due: DueNodes) -> _Batch:
        request, recipe = self._request, self._drafting.recipe
        batch = _Batch(request.max_tokens - request.spent if request.max_tokens else None)
        for level in range(await due.levels()):
            nodes = await due.of_level(level, head.head_turn, head.checkpoint_turn, recipe)
            await self._fill(batch, nodes, due)
            if batch.nodes or batch.is_over:
                break
        return batch

    async def _fill(self, batch: _Batch, nodes: Sequence[DueNode], due: DueNodes) -> None:
        """What follows nodes that were replaced is made whatever it takes, which is little."""
        for place, node in enumerate(nodes):
            if batch.is_full:
                batch.is_over = True
                batch.left += len(nodes) - place
                return
            if not node.follows and batch.is_spent:
                batch.left += 1
            elif not node.follows and (why := await self._loss(node)) is not None:
                await self._skip(batch, node.range, why, due)
            elif node.follows or batch.pays(node.input_tokens):
                batch.add(node.range, node.input_tokens)
            else:
                batch.left += 1

    async def _loss(self, due: DueNode) -> str | None:
        """Why an upgrade of the node cannot pay."""
        request = self._request
        if request.reason != "upgrade":
            return None
        target = (self._pool, request.tenant, request.branch_uuid)
        [node] = await self._store.summaries([due.summary_id])
        return await upgrade_worth(*target, node, asks_model=self._drafting.asks_model)

    async def _merges(self, head: BranchHead, due: DueNodes) -> _Batch:
        """Only where the newest checkpoint is the branch's own: a fork follows its ancestors."""
        batch = _Batch()
        if await self._store.own_checkpoint(head.checkpoint_turn) is None:
            return batch
        frontier, tried = await self._store.frontier(head.checkpoint_turn), await due.tried()
        groups = _groups(frontier, self._request.policy.fan_out)
        for group in sorted(groups, key=lambda group: group[0].level):
            node = _merged(group)
            if batch.nodes and (node.level != batch.level or batch.is_full):
                batch.is_over = True
                break
            if (node.level, node.from_turn, node.to_turn) not in tried:
                await self._consider(batch, node, group, head, due)
        return batch

    async def _consider(
        self,
        batch: _Batch,
        node: NodeRange,
        group: Sequence[Summary],
        head: BranchHead,
        due: DueNodes,
    ) -> None:
        asks_model, policy = self._drafting.asks_model, self._request.policy
        why = await merge_worth(self._store, head, node, policy, asks_model=asks_model)
        if why is None:
            batch.add(node, sum(child.token_count for child in group))
        else:
            await self._skip(batch, node, why, due)

    async def _skip(self, batch: _Batch, node: NodeRange, why: str, due: DueNodes) -> None:
        request = self._request
        target = (self._pool, request.tenant, request.branch_uuid)
        await note_skipped_node(*target, node, request.reason, why)
        await due.note_tried(node, why)
        batch.skipped += 1


def _groups(frontier: Sequence[Summary], fan_out: int) -> Iterator[Sequence[Summary]]:
    """Neighbours of one level, as many as merge into one node, oldest first."""
    for _, run in groupby(frontier, key=lambda node: node.level):
        nodes = list(run)
        for start in range(0, len(nodes) - fan_out + 1, fan_out):
            yield nodes[start : start + fan_out]


def _merged(group: Sequence[Summary]) -> NodeRange:
    return NodeRange(
        level=group[0].level + 1, from_turn=group[0].from_turn, to_turn=group[-1].to_turn
    )
