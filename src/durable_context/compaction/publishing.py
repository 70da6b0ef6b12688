"""The one transaction that publishes: drafts become current with the checkpoint they lead to. Every
statement filters on the tenant.

Whoever publishes locks the branch first, so that all writers of a branch queue in one place.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.compaction.accounting import Figures, store_figures
from durable_context.compaction.counting import count_completed
from durable_context.compaction.source import NODES_HASH
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import StalePlan
from durable_context.models import Checkpoint
from durable_context.policy import CompactionPolicy
from durable_context.prompts.rendering import RenderedCheckpoint

OVERLAP = "DC002"
"""SQLSTATE of the database's refusal of nodes of one level that overlap."""
MAX_HANDLES = 200
"""A checkpoint names the newest of what its own turns brought; its parents name what was before."""

_OUTDATED = f"""
select n.from_turn, n.to_turn from durable_context.summaries n cross join lateral (
    select {NODES_HASH} as input_hash from durable_context.visible_summaries c
    where c.tenant = $1 and c.seen_by = $2 and c.level = n.level - 1
        and c.from_turn >= n.from_turn and c.to_turn <= n.to_turn
) i
where n.tenant = $1 and n.branch_uuid = $2 and n.summary_id = any($3::uuid[]) and n.level > 0
    and i.input_hash is distinct from n.input_hash
limit 1
"""
# Whatever a revert takes back, it rejects something that was current.
_WAS_REVERTED = """
select exists (
    select from durable_context.summaries s where s.tenant = $1 and s.branch_uuid = $2
        and s.state = 'rejected' and s.published_in is not null and s.replaced_in > $3
) or exists (
    select from durable_context.checkpoints c where c.tenant = $1 and c.branch_uuid = $2
        and c.state = 'rejected' and c.replaced_in > $3
)
"""


class NewCheckpoint(NamedTuple):
    """What one commit publishes, made of the branch as of `publication`. `tokens_before` and
    `tokens_after` are its leaf's.
    """

    previous: Checkpoint | None
    publication: int
    turn_no: int
    summary_ids: Sequence[UUID]
    frontier: Sequence[UUID]
    rendered: RenderedCheckpoint
    token_usage: dict[str, int]
    tokens_before: int
    tokens_after: int
    figures: Figures
    policy: CompactionPolicy


class Publications:
    """What is published of one tenant's branch."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid

    async def publish(self, compaction_id: UUID, new: NewCheckpoint) -> UUID:
        """Make the drafts current and the checkpoint, whose id is returned, the newest: all or
        nothing. Raises StalePlan when something else was published since `new.publication`.
        """
        try:
            async with acquired(self._pool) as connection, connection.transaction():
                await self._begin_publication(connection, new.publication)
                await self._make_current(connection, new.summary_ids)
                checkpoint_id = await self._insert_checkpoint(connection, new)
                reason = await self._complete(connection, compaction_id, new)
                target = (self._tenant, self._branch)
                await store_figures(connection, *target, [compaction_id], new.figures, new.policy)
        except asyncpg.PostgresError as error:
            if error.sqlstate == OVERLAP:
                raise StalePlan("other nodes cover these turns by now") from error
            raise
        if reason is not None:
            count_completed(reason, new.tokens_before, new.tokens_after)
        return checkpoint_id

    async def was_reverted(self, since: int) -> bool:
        """Whether the branch was, since that publication."""
        async with acquired(self._pool) as connection:
            return await connection.fetchval(_WAS_REVERTED, self._tenant, self._branch, since)

    async def _lock(self, connection: Connection) -> int | None:
        """The branch's checkpoint turn, which stays what it is until the transaction ends."""
        return await connection.fetchval(
            "select checkpoint_turn from durable_context.branches"
            " where tenant = $1 and branch_uuid = $2 for no key update",
            self._tenant,
            self._branch,
        )

    async def _begin_publication(self, connection: Connection, expected: int) -> None:
        """Lock the branch and count one publication more; what changes from here on bears its
        number.
        """
        found = await connection.fetchval(
            "update durable_context.branches set publication = publication + 1"
            " where tenant = $1 and branch_uuid = $2 and publication = $3 returning publication",
            self._tenant,
            self._branch,
            expected,
        )
        if found is None:
            raise StalePlan(f"something was published since publication {expected} of the branch")

    async def _make_current(self, connection: Connection, ids: Sequence[UUID]) -> None:
        """Raises StalePlan where a node is not a draft any more, or merges others than those that
        stand there now.
        """
        rows = await connection.fetch(
            "update durable_context.summaries set state = 'current'"
            " where tenant = $1 and branch_uuid = $2 and summary_id = any($3::uuid[])"
            " and state = 'draft' returning summary_id",
            self._tenant,
            self._branch,
            ids,
        )
        if len(rows) != len(ids):
            raise StalePlan(f"of {len(ids)} planned nodes only {len(rows)} are drafts")
        if outdated := await connection.fetchrow(_OUTDATED, self._tenant, self._branch, ids):
            raise StalePlan("other nodes than were merged cover turns {}-{} now".format(*outdated))

    async def _insert_checkpoint(self, connection: Connection, new: NewCheckpoint) -> UUID:
        return await connection.fetchval(
            "insert into durable_context.checkpoints (tenant, branch_uuid, turn_no, parent_id,"
            " frontier, leaf_count, sections, ledger, text, token_count, token_usage,"
            " artifact_handles, revision)"
            " select $1, $2, $3, $4, $5, coalesce(p.leaf_count, 0) + 1, $6, $7, $8, $9, $10,"
            " array(select a.handle from (select handle, turn_no, artifact_no"
            " from durable_context.visible_artifacts where tenant = $1 and seen_by = $2"
            " and source <> 'put' and turn_no between $11 and $3"
            " order by turn_no desc, artifact_no desc limit $12) a"
            " order by a.turn_no, a.artifact_no),"
            " 1 + coalesce((select max(c.revision) from durable_context.checkpoints c"
            " where c.branch_uuid = $2 and c.turn_no = $3), 0)"
            " from (values (1)) as one left join durable_context.checkpoints p"
            " on p.tenant = $1 and p.checkpoint_id = $4"
            " returning checkpoint_id",
            self._tenant,
            self._branch,
            new.turn_no,
            new.previous.checkpoint_id if new.previous else None,
            new.frontier,
            stored_json.dumps(new.rendered.sections),
            stored_json.dump_ledger(new.rendered.ledger),
            new.rendered.text,
            new.rendered.token_count,
            stored_json.dumps(new.token_usage),
            new.previous.turn_no + 1 if new.previous else 1,
            MAX_HANDLES,
        )

    async def _complete(
        self, connection: Connection, compaction_id: UUID, new: NewCheckpoint
    ) -> str | None:
        """Its reason."""
        return await connection.fetchval(
            "with moved as ("
            " update durable_context.branches b set checkpoint_turn = $4,"
            " checkpoint_tokens = t.head_tokens from durable_context.visible_turns t"
            " where b.tenant = $1 and b.branch_uuid = $2"
            " and t.tenant = $1 and t.seen_by = $2 and t.turn_no = $4)"
            " update durable_context.compactions set status = 'completed', error = null,"
            " attempts = attempts + 1,"
            " tokens_before = $5, tokens_after = $6, finished_at = clock_timestamp()"
            " where tenant = $1 and branch_uuid = $2 and compaction_id = $3 returning reason",
            self._tenant,
            self._branch,
            compaction_id,
            new.turn_no,
            new.tokens_before,
            new.tokens_after,
        )
