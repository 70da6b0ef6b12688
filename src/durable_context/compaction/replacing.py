"""Publishes what a rebuild made: drafts stand for published nodes or merge them, and the newest
checkpoint is made again where it shows any of these. One transaction, so that a prompt shows either
what was before or what is now.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.compaction.accounting import Figures, figures, store_figures
from durable_context.compaction.checkpoints import check_cover
from durable_context.compaction.counting import count_completed, count_failed
from durable_context.compaction.publishing import OVERLAP
from durable_context.compaction.spending import spent
from durable_context.compaction.store import CompactionStore
from durable_context.contracts.rebuild import ReplaceRequest, ReplaceResult
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import StalePlan
from durable_context.models import Checkpoint, Summary
from durable_context.policy import CompactionPolicy
from durable_context.prompts.rendering import RenderedCheckpoint, render_checkpoint
from durable_context.tokens import TokenCounter

PUBLISHED_MEANWHILE = 5
"""Times that a replacement starts over because something else was published under its hands."""

_SUPERSEDE = """
update durable_context.summaries o set state = 'superseded'
from durable_context.summaries n
where n.tenant = $1 and n.branch_uuid = $2 and n.summary_id = any($3::uuid[])
    and o.tenant = $1 and o.branch_uuid = $2 and o.state = 'current' and n.state = 'draft'
    and o.level = n.level and o.from_turn = n.from_turn and o.to_turn = n.to_turn
returning n.summary_id
"""

_SUPERSEDE_CHECKPOINT = """
update durable_context.checkpoints set state = 'superseded'
where tenant = $1 and branch_uuid = $2 and checkpoint_id = $3 and state = 'current'
"""

# A parent that was made again since is named as it is by now.
_ADD_REVISION = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, parent_id, frontier, leaf_count, sections, ledger, text,
    token_count, token_usage, artifact_handles, revision
)
select $1, $2, o.turn_no, (
        select p.checkpoint_id from durable_context.visible_checkpoints p
        where p.tenant = $1 and p.seen_by = $2 and p.turn_no = (
            select max(b.turn_no) from durable_context.visible_checkpoints b
            where b.tenant = $1 and b.seen_by = $2 and b.turn_no < o.turn_no
        )
    ), $4, o.leaf_count, $5, o.ledger, $6, $7, $8, o.artifact_handles,
    1 + (select max(c.revision) from durable_context.checkpoints c
        where c.branch_uuid = $2 and c.turn_no = o.turn_no)
from durable_context.checkpoints o
where o.tenant = $1 and o.branch_uuid = $2 and o.checkpoint_id = $3
"""

_COMPLETE = """
update durable_context.compactions c set status = 'completed', error = null,
    attempts = c.attempts + 1, tokens_before = n.input_tokens, tokens_after = n.token_count,
    recipe = n.recipe, finished_at = clock_timestamp()
from durable_context.summaries n
where n.tenant = $1 and n.branch_uuid = $2 and n.summary_id = any($3::uuid[])
    and c.tenant = $1 and c.branch_uuid = $2 and c.status = 'running' and c.level = n.level
    and c.from_turn = n.from_turn and c.to_turn = n.to_turn
returning c.compaction_id, c.reason, c.tokens_before, c.tokens_after
"""

_FAIL = """
update durable_context.compactions set status = 'failed', finished_at = clock_timestamp(),
    error = coalesce(error, 'no summarizer made it')
where tenant = $1 and branch_uuid = $2 and compaction_id = any($3::uuid[]) and status = 'running'
returning reason
"""


class _Replacement(NamedTuple):
    """`merges`: how many of the drafts stand for several nodes. `rendered`: the newest checkpoint
    with them, where it changes.
    """

    publication: int
    drafts: Sequence[Summary]
    merges: int
    checkpoint: Checkpoint | None
    frontier: Sequence[Summary]
    rendered: RenderedCheckpoint | None
    figures: Figures | None
    policy: CompactionPolicy


class Replacing:
    """Replaces nodes of one branch."""

    def __init__(
        self, pool: Pool, request: ReplaceRequest, counters: Callable[[str], TokenCounter]
    ) -> None:
        self._pool = pool
        self._request = request
        self._counters = counters
        self._store = _ReplacementStore(pool, request.tenant, request.branch_uuid)

    async def replace(self) -> ReplaceResult:
        """Repeated, it returns the same. Raises StalePlan when a draft fits nowhere any more."""
        request = self._request
        if request.failed:
            await self._store.fail(request.failed)
        drafts = await self._store.summaries(request.drafts)
        if len(drafts) != len(request.drafts):
            raise StalePlan(f"of {len(request.drafts)} planned nodes {len(drafts)} exist")
        try:
            merges = await self._replace_once_more(drafts)
        except StalePlan:
            merges = await self._store.published_merges(request.drafts)
            if merges is None:
                raise
        head = await self._store.head()
        return ReplaceResult(
            checkpoint_turn=head.checkpoint_turn,
            replaced=len(drafts) - merges,
            merged=merges,
            from_turn=min((node.from_turn for node in drafts), default=1),
            to_turn=max((node.to_turn for node in drafts), default=0),
            spending=await spent(self._pool, request.tenant, request.branch_uuid, request.failed),
        )

    async def _replace_once_more(self, drafts: Sequence[Summary]) -> int:
        """What was published meanwhile is mostly a new leaf, and the drafts fit as they did."""
        for _ in range(PUBLISHED_MEANWHILE):
            before = (await self._store.head()).publication
            try:
                return await self._store.replace(await self._replacement(drafts))
            except StalePlan:
                if (await self._store.head()).publication == before:
                    raise
        return await self._store.replace(await self._replacement(drafts))

    async def _replacement(self, drafts: Sequence[Summary]) -> _Replacement:
        """What is expensive is computed before the branch is locked."""
        head = await self._store.head()
        since = self._request.since
        if since is not None and await self._store.was_reverted(since):
            raise StalePlan("the branch was reverted since the rebuild began")
        newest = await self._store.own_checkpoint(head.checkpoint_turn)
        older = await self._store.frontier(head.checkpoint_turn) if newest else []
        known = await self._store.replaced(self._request.drafts)
        frontier = _with(older, drafts, known)
        check_cover(frontier)
        rendered = changed = None
        policy = self._request.policy
        if newest and [node.summary_id for node in frontier] != list(newest.frontier):
            counter = self._counters(head.encoding)
            rendered = render_checkpoint(frontier, newest.ledger, counter=counter, policy=policy)
            changed = figures(newest, rendered, 0, counter)
        merges = len(drafts) - len(known)
        return _Replacement(
            head.publication, drafts, merges, newest, frontier, rendered, changed, policy
        )


class _ReplacementStore(CompactionStore):
    async def replaced(self, drafts: Sequence[UUID]) -> set[UUID]:
        """Those of the drafts for whose level and turns the branch has a published node."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select n.summary_id from durable_context.summaries n"
                " join durable_context.summaries o on o.tenant = n.tenant"
                " and o.branch_uuid = n.branch_uuid and o.state = 'current'"
                " and o.level = n.level and o.from_turn = n.from_turn and o.to_turn = n.to_turn"
                " where n.tenant = $1 and n.branch_uuid = $2 and n.summary_id = any($3::uuid[])",
                self._tenant,
                self._branch,
                drafts,
            )
        return {row[0] for row in rows}

    async def published_merges(self, drafts: Sequence[UUID]) -> int | None:
        """How many of the drafts were the first of their level and turns, if all are published."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select not exists (select from durable_context.summaries o"
                " where o.tenant = $1 and o.branch_uuid = $2 and o.level = n.level"
                " and o.from_turn = n.from_turn and o.to_turn = n.to_turn"
                " and o.replaced_in = n.published_in)"
                " from durable_context.summaries n where n.tenant = $1 and n.branch_uuid = $2"
                " and n.summary_id = any($3::uuid[]) and n.published_in is not null",
                self._tenant,
                self._branch,
                drafts,
            )
        return sum(row[0] for row in rows) if drafts and len(rows) == len(drafts) else None

    async def fail(self, compactions: Sequence[UUID]) -> None:
        """Those that still run."""
        async with acquired(self._pool) as connection, connection.transaction():
            await self._lock(connection)
            rows = await connection.fetch(_FAIL, self._tenant, self._branch, compactions)
        count_failed(row["reason"] for row in rows)

    async def replace(self, new: _Replacement) -> int:
        """All or nothing; how many merges there were. Raises StalePlan."""
        if not new.drafts and not new.rendered:
            return 0
        try:
            async with acquired(self._pool) as connection, connection.transaction():
                await self._begin_publication(connection, new.publication)
                done = await self._publish_drafts(connection, new)
                if new.figures:
                    target = (self._tenant, self._branch)
                    ids = [row["compaction_id"] for row in done]
                    await store_figures(connection, *target, ids, new.figures, new.policy)
                if new.rendered and new.checkpoint:
                    await self._add_revision(connection, new.checkpoint, new.rendered, new.frontier)
        except asyncpg.PostgresError as error:
            if error.sqlstate == OVERLAP:
                raise StalePlan("other nodes cover these turns by now") from error
            raise
        for _, *completed in done:
            count_completed(*completed)
        return new.merges

    async def _publish_drafts(
        self, connection: Connection, new: _Replacement
    ) -> list[asyncpg.Record]:
        """The compactions that are completed with it: id, reason, tokens before and after."""
        ids = [node.summary_id for node in new.drafts]
        old = await connection.fetch(_SUPERSEDE, self._tenant, self._branch, ids)
        if len(old) != len(ids) - new.merges:
            raise StalePlan("other nodes stand for these turns by now")
        await self._make_current(connection, ids)
        return await connection.fetch(_COMPLETE, self._tenant, self._branch, ids)

    async def _add_revision(
        self,
        connection: Connection,
        old: Checkpoint,
        rendered: RenderedCheckpoint,
        frontier: Sequence[Summary],
    ) -> None:
        """Of the checkpoint, whose ledger stays whole whatever is shown of it."""
        tokens = sum(node.token_count for node in frontier)
        target = (self._tenant, self._branch, old.checkpoint_id)
        await connection.execute(_SUPERSEDE_CHECKPOINT, *target)
        await connection.execute(
            _ADD_REVISION,
            *target,
            [node.summary_id for node in frontier],
            stored_json.dumps(rendered.sections),
            rendered.text,
            rendered.token_count,
            stored_json.dumps(old.token_usage | {"frontier_tokens": tokens}),
        )


def _with(
    frontier: Sequence[Summary], drafts: Sequence[Summary], known: set[UUID]
) -> list[Summary]:
    """The frontier with each draft in the place of what it stands for: the node of its turns, or
    those that it merges. Raises StalePlan where a draft that is not `known` has no place.
    """
    nodes = list(frontier)
    for draft in drafts:
        place = _place(nodes, draft)
        if place is not None:
            nodes[place] = [draft]
        elif draft.summary_id not in known:
            raise StalePlan(f"turns {draft.from_turn}-{draft.to_turn} have no nodes to merge")
    return nodes


def _place(nodes: Sequence[Summary], draft: Summary) -> slice | None:
    inside = [
        place
        for place, node in enumerate(nodes)
        if node.from_turn >= draft.from_turn and node.to_turn <= draft.to_turn
    ]
    if not inside:
        return None
    first, last = nodes[inside[0]], nodes[inside[-1]]
    levels = {nodes[place].level for place in inside}
    is_whole = (first.from_turn, last.to_turn) == (draft.from_turn, draft.to_turn)
    fits = levels == {draft.level} or levels == {draft.level - 1}
    return slice(inside[0], inside[-1] + 1) if is_whole and fits else None
