"""What pages and lists read of a branch, however long it is: a part of `Branch`."""

from uuid import UUID

from durable_context.arguments import check_turn
from durable_context.errors import InvalidArgument
from durable_context.looks.nodes import Nodes
from durable_context.looks.outlines import TurnOutline, turn_outlines
from durable_context.looks.sizes import MOST_BUCKETS, BranchSizes, branch_sizes
from durable_context.looks.standing import BranchStanding, Standing
from durable_context.models import Artifact, Summary
from durable_context.policy import CompactionPolicy
from durable_context.resources import Resources


class BranchLooks:
    """Base of `Branch`, whose attributes these are."""

    branch_uuid: UUID
    fork_turn: int | None
    policy: CompactionPolicy
    _resources: Resources

    async def standing(self) -> BranchStanding:
        """How the branch stands: without its turns, checkpoints and artifacts.

        Raises UnknownBranch.
        """
        return await Standing(self._resources, self.branch_uuid, self.policy).read()

    async def head_turn(self) -> int:
        """The newest turn, 0 before the first. Raises UnknownBranch."""
        return (await self._resources.branches.head(self.branch_uuid)).head_turn

    async def sizes(self, buckets: int = MOST_BUCKETS) -> BranchSizes:
        """Tokens along the branch, and its compactions, in so many buckets at most; reads four
        numbers of each turn. Raises InvalidArgument.
        """
        if not 1 <= buckets <= MOST_BUCKETS:
            raise InvalidArgument(f"buckets={buckets}; allowed are 1 to {MOST_BUCKETS}")
        return await branch_sizes(
            self._resources.pool,
            self._resources.tenant,
            self.branch_uuid,
            inherited_turn=self.fork_turn or 0,
            keep_raw_turns=self.policy.keep_raw_turns,
            buckets=buckets,
        )

    async def turn_outlines(self, from_turn: int, to_turn: int) -> tuple[TurnOutline, ...]:
        """Turns without their messages, both ends included, 500 at most. Raises InvalidArgument."""
        check_turn("from_turn", from_turn)
        check_turn("to_turn", to_turn)
        shared = self._resources
        return await turn_outlines(shared.pool, shared.tenant, self.branch_uuid, from_turn, to_turn)

    async def summary(self, summary_id: UUID) -> Summary:
        """A node that the branch sees, or one of its own that another replaced.

        Raises SummaryNotFound.
        """
        return await self._nodes.find(summary_id)

    async def summaries_below(self, node: Summary) -> tuple[Summary, ...]:
        """The nodes it was made of, oldest first; none of a leaf."""
        return await self._nodes.below(node)

    async def summaries_above(self, node: Summary) -> tuple[Summary, ...]:
        """The nodes that cover it, by level."""
        return await self._nodes.above(node.level, node.from_turn, node.to_turn)

    async def summaries_of_turn(self, turn_no: int) -> tuple[Summary, ...]:
        """The nodes that cover the turn, by level. Raises InvalidArgument."""
        check_turn("turn_no", turn_no)
        return await self._nodes.above(-1, turn_no, turn_no)

    async def revisions(self, node: Summary) -> tuple[Summary, ...]:
        """All that stood at the place of this node, the current one first, then the branch's own
        that were replaced or rejected, newest first, as long as retention keeps them.
        """
        current = await self._nodes.current(node)
        return (*([current] if current else []), *await self._nodes.replaced(node))

    async def artifacts_of_turn(self, turn_no: int) -> tuple[Artifact, ...]:
        """What the turn brought, and what was put while the branch stood there, 100 at most.

        Raises InvalidArgument.
        """
        check_turn("turn_no", turn_no)
        return await self._resources.artifacts.of_turn(self.branch_uuid, turn_no)

    @property
    def _nodes(self) -> Nodes:
        return Nodes(self._resources.pool, self._resources.tenant, self.branch_uuid)
