"""Going back to an older checkpoint: the branch stands as it stood when that was published.

What was published later is rejected: it stays where it is, and nothing but forks that were made
with it finds it again. What was replaced since is published anew, as a copy.
"""

from typing import NamedTuple
from uuid import UUID

from durable_context import stored_json
from durable_context.compaction import following, node_index
from durable_context.compaction.accounting import end_savings
from durable_context.control.reversal import Reversal
from durable_context.control.revert_target import Target, check_target, find_target
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import InvalidArgument, UnknownBranch

_CHECKPOINT_TURN = """
select b.checkpoint_turn from durable_context.branches b
where b.tenant = $1 and b.branch_uuid = $2
"""
_BEGIN = """
update durable_context.branches set publication = publication + 1
where tenant = $1 and branch_uuid = $2
"""
# $3 is the turn to go back to, $4 the publication.
# Publications of ancestors that a fork has followed since, to which nodes of the checkpoint were
# there: it sees these ancestors as of then again.
_FOLLOWED_SINCE = """
select l.depth, min(s.replaced_in) - 1 as publication from durable_context.lineage l
join durable_context.summaries s on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid
    and s.replaced_in <= l.publication
join durable_context.checkpoints c on c.tenant = l.tenant and c.branch_uuid = l.branch_uuid
    and s.summary_id = any(c.frontier)
where l.tenant = $1 and l.branch_uuid = $2 and l.depth > 0 and c.checkpoint_id = $3
group by l.depth
"""
_SEE_AGAIN = """
update durable_context.lineage set publication = $4
where tenant = $1 and branch_uuid = $2 and depth = $3
"""
_REPLACED_SINCE = """
select s.summary_id from durable_context.summaries s
where s.tenant = $1 and s.branch_uuid = $2 and s.state = 'superseded' and s.to_turn <= $3
    and s.published_in <= $4 and s.replaced_in > $4
"""
# Drafts were made with what is rejected in view. A leaf that replaced one that retention has taken
# is kept: turns without a leaf would be a gap.
_REJECT_NODES = """
update durable_context.summaries s set state = 'rejected'
where s.tenant = $1 and s.branch_uuid = $2 and s.state <> 'rejected' and (
    s.state = 'draft' or s.to_turn > $3
    or s.published_in > $4 and (s.level > 0 or s.state = 'superseded' or exists (
        select from durable_context.summaries o
        where o.tenant = $1 and o.branch_uuid = $2 and o.summary_id = any($5::uuid[])
            and o.level = 0 and o.from_turn = s.from_turn and o.to_turn = s.to_turn
    ))
) returning s.published_in is null as is_draft
"""
_COPY_NODES = """
insert into durable_context.summaries (
    tenant, branch_uuid, level, from_turn, to_turn, recipe, input_hash, revision, state, headline,
    text, token_count, input_tokens, covered_tokens, made_by, degraded, usage, schema_version,
    created_at
)
select s.tenant, s.branch_uuid, s.level, s.from_turn, s.to_turn, s.recipe, s.input_hash, (
        select max(r.revision) + 1 from durable_context.summaries r
        where r.tenant = $1 and r.branch_uuid = $2 and r.level = s.level
            and r.from_turn = s.from_turn and r.to_turn = s.to_turn and r.recipe = s.recipe
            and r.input_hash = s.input_hash
    ), 'current', s.headline, s.text, s.token_count, s.input_tokens, s.covered_tokens, s.made_by,
    s.degraded, s.usage, s.schema_version, s.created_at
from durable_context.summaries s
where s.tenant = $1 and s.branch_uuid = $2 and s.summary_id = any($3::uuid[])
order by s.level, s.from_turn
"""
_REJECT_CHECKPOINTS = """
update durable_context.checkpoints c set state = 'rejected'
where c.tenant = $1 and c.branch_uuid = $2 and c.state <> 'rejected'
    and (c.turn_no > $3 or c.published_in > $4) and c.checkpoint_id is distinct from $5
returning c.checkpoint_id
"""
_FRONTIER = """
select f.summary_id, v.summary_id as by_now from durable_context.checkpoints c
cross join unnest(c.frontier) with ordinality f (summary_id, position)
left join durable_context.summaries o on o.tenant = c.tenant and o.summary_id = f.summary_id
left join durable_context.visible_summaries v on v.tenant = c.tenant and v.seen_by = c.branch_uuid
    and v.level = o.level and v.from_turn = o.from_turn and v.to_turn = o.to_turn
where c.tenant = $1 and c.branch_uuid = $2 and c.checkpoint_id = $3 order by f.position
"""
_SUPERSEDE = """
update durable_context.checkpoints set state = 'superseded'
where tenant = $1 and branch_uuid = $2 and checkpoint_id = $3 and state = 'current'
returning sections
"""
_SECTIONS = """
select sections from durable_context.checkpoints
where tenant = $1 and branch_uuid = $2 and checkpoint_id = $3
"""
_COPY_CHECKPOINT = """
insert into durable_context.checkpoints (
    tenant, branch_uuid, turn_no, parent_id, frontier, leaf_count, sections, ledger, text,
    token_count, token_usage, artifact_handles, schema_version, revision
)
select c.tenant, c.branch_uuid, c.turn_no, (
        select p.checkpoint_id from durable_context.visible_checkpoints p
        where p.tenant = $1 and p.seen_by = $2 and p.turn_no < c.turn_no
        order by p.turn_no desc limit 1
    ), $4, c.leaf_count, $5, c.ledger, c.text, c.token_count, c.token_usage, c.artifact_handles,
    c.schema_version, (
        select max(r.revision) + 1 from durable_context.checkpoints r
        where r.tenant = $1 and r.branch_uuid = $2 and r.turn_no = c.turn_no
    )
from durable_context.checkpoints c
where c.tenant = $1 and c.branch_uuid = $2 and c.checkpoint_id = $3 returning checkpoint_id
"""
# Copies have other ids: the same text made of nodes that say the same is the same checkpoint.
_SAME = """
select n.checkpoint_id, n.published_in as publication from durable_context.checkpoints c
join durable_context.checkpoints n on n.tenant = c.tenant and n.branch_uuid = c.branch_uuid
    and n.turn_no = c.turn_no and n.state = 'current' and n.text = c.text
    and n.ledger::text = c.ledger::text
join durable_context.branches b on b.tenant = n.tenant and b.branch_uuid = n.branch_uuid
    and b.checkpoint_turn = n.turn_no
where c.tenant = $1 and c.branch_uuid = $2 and c.checkpoint_id = $3
    and n.published_in > c.published_in
    and array(
        select row(s.level, s.from_turn, s.to_turn, s.headline, s.text)::text
        from unnest(c.frontier) f (summary_id)
        join durable_context.summaries s on s.tenant = $1 and s.summary_id = f.summary_id
        order by s.from_turn
    ) = array(
        select row(s.level, s.from_turn, s.to_turn, s.headline, s.text)::text
        from unnest(n.frontier) f (summary_id)
        join durable_context.summaries s on s.tenant = $1 and s.summary_id = f.summary_id
        order by s.from_turn
    )
"""
_MOVE_BACK = """
update durable_context.branches b set checkpoint_turn = $3, checkpoint_tokens = coalesce((
    select t.head_tokens from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no = $3
), 0)
where b.tenant = $1 and b.branch_uuid = $2
"""
_FAIL_COMPACTIONS = """
update durable_context.compactions set status = 'failed', finished_at = clock_timestamp(),
    error = coalesce(error || '; ', '') || format('the branch was reverted to turn %s', $3::integer)
where tenant = $1 and branch_uuid = $2 and status = 'running'
returning compaction_id
"""
_DROP_PARTS = "delete from durable_context.summary_parts where tenant = $1 and branch_uuid = $2"
_TELL = "select durable_context.note_event($1, $2, 'reverted', $3, null, $4)"


class _Rejected(NamedTuple):
    nodes: int
    drafts: int
    checkpoints: int
    restored: int


class Reverting:
    """One branch of one tenant. Its writers wait while it is changed, and plan anew after it."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID) -> None:
        self._pool = pool
        self._branch = (tenant, branch_uuid)

    async def revert(self, to: int | UUID, because: str | None = None) -> Reversal:
        """All or nothing. Going back to what is current changes nothing.

        Raises CheckpointNotFound, InvalidArgument, UnknownBranch.
        """
        check_target(to)
        async with acquired(self._pool) as connection, connection.transaction():
            reversal = await self._revert(connection, to, because)
        # The index is derived, and readers look only at what goes with the checkpoint.
        await node_index.forget_rejected(self._pool, *self._branch)
        await node_index.add_nodes(self._pool, *self._branch, reversal.to_turn)
        return reversal

    async def foresee(self, to: int | UUID) -> Reversal:
        """What it would do, found by doing it and taking it back. Raises as `revert` does."""
        check_target(to)
        async with acquired(self._pool) as connection:
            transaction = connection.transaction()
            await transaction.start()
            try:
                target = await find_target(connection, *self._branch, to)
                reversal = await self._revert(connection, to, None)
                return reversal.model_copy(update={"checkpoint_id": target.checkpoint_id})
            finally:
                await transaction.rollback()

    async def _revert(
        self, connection: Connection, to: int | UUID, because: str | None
    ) -> Reversal:
        await connection.execute(following.LOCK, *self._branch)
        from_turn = await connection.fetchval(_CHECKPOINT_TURN, *self._branch)
        if from_turn is None:
            raise UnknownBranch(f"there is no branch {self._branch[1]} for this tenant")
        target = await find_target(connection, *self._branch, to)
        standing = await self._standing(connection, target, from_turn)
        if standing is not None:
            return Reversal(
                from_turn=from_turn,
                to_turn=from_turn,
                checkpoint_id=standing.checkpoint_id,
                changes=False,
            )
        return await self._change(connection, target, from_turn, because)

    async def _standing(
        self, connection: Connection, target: Target, from_turn: int
    ) -> Target | None:
        """The newest checkpoint, if it is the one to go back to, or a copy of it, and no node was
        replaced since.
        """
        if target.turn_no != from_turn:
            return None
        if not target.is_current:
            copy = await connection.fetchrow(_SAME, *self._branch, target.checkpoint_id)
            if copy is None:
                return None
            target = target._replace(**dict(copy.items()))
        stood = (*self._branch, target.turn_no, target.publication)
        replaced = await connection.fetch(_REPLACED_SINCE, *stood)
        followed = await connection.fetch(_FOLLOWED_SINCE, *self._branch, target.checkpoint_id)
        return None if replaced or followed else target

    async def _change(
        self, connection: Connection, target: Target, from_turn: int, because: str | None
    ) -> Reversal:
        await connection.execute(_BEGIN, *self._branch)
        await end_savings(connection, *self._branch, target.publication)
        for seen in await connection.fetch(_FOLLOWED_SINCE, *self._branch, target.checkpoint_id):
            await connection.execute(_SEE_AGAIN, *self._branch, *seen)
        rejected = await self._reject(connection, target)
        checkpoint_id = await self._stand_at(connection, target, rejected.restored)
        await connection.execute(_MOVE_BACK, *self._branch, target.turn_no)
        failed = await connection.fetch(_FAIL_COMPACTIONS, *self._branch, target.turn_no)
        await connection.execute(_DROP_PARTS, *self._branch)
        reversal = Reversal(
            from_turn=from_turn,
            to_turn=target.turn_no,
            checkpoint_id=checkpoint_id,
            nodes_rejected=rejected.nodes,
            drafts_rejected=rejected.drafts,
            checkpoints_rejected=rejected.checkpoints,
            restored=rejected.restored,
            compactions_failed=len(failed),
        )
        told = reversal.model_dump(mode="json", exclude_none=True, exclude={"changes"})
        told |= {"because": because} if because else {}
        await connection.execute(_TELL, *self._branch, target.turn_no, stored_json.dumps(told))
        return reversal

    async def _reject(self, connection: Connection, target: Target) -> _Rejected:
        """What is there since, and publish copies of what is not."""
        stood = (*self._branch, target.turn_no, target.publication)
        replaced = [row[0] for row in await connection.fetch(_REPLACED_SINCE, *stood)]
        nodes = await connection.fetch(_REJECT_NODES, *stood, replaced)
        await connection.execute(_COPY_NODES, *self._branch, replaced)
        kept = target.checkpoint_id if target.is_own else None
        checkpoints = await connection.fetch(_REJECT_CHECKPOINTS, *stood, kept)
        drafts = sum(row["is_draft"] for row in nodes)
        return _Rejected(len(nodes) - drafts, drafts, len(checkpoints), len(replaced))

    async def _stand_at(self, connection: Connection, target: Target, restored: int) -> UUID | None:
        """The checkpoint's id, or that of its copy where nodes are copies by now."""
        if not target.is_own:
            return target.checkpoint_id
        one = (*self._branch, target.checkpoint_id)
        rows = await connection.fetch(_FRONTIER, *one)
        by_now = {row["summary_id"]: row["by_now"] for row in rows}
        if None in by_now.values():
            raise InvalidArgument(
                f"to={target.checkpoint_id}: nodes of the checkpoint of turn {target.turn_no} are"
                " not kept any more; go back to another one"
            )
        if target.is_current and not restored:
            return target.checkpoint_id
        await connection.execute(_SUPERSEDE, *one)
        sections = _renamed(await connection.fetchval(_SECTIONS, *one), by_now)
        return await connection.fetchval(_COPY_CHECKPOINT, *one, list(by_now.values()), sections)


def _renamed(sections: str, by_now: dict[UUID, UUID]) -> str:
    """A checkpoint's sections, of the nodes that stand for its own."""
    names = {str(old): str(new) for old, new in by_now.items()}
    parts = stored_json.loads(sections)
    return stored_json.dumps(
        [part | {"id": names[part["id"]]} if part.get("id") in names else part for part in parts]
    )
