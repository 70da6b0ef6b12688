"""Drafts of summary nodes in PostgreSQL, kept under the hash of their input before anyone is told
of them: whoever tries again finds them and asks no summarizer. Every statement filters on the
tenant.

A branch reads what it sees, its ancestors' rows among them, and writes only rows of its own, after
it has locked the branch.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from durable_context import stored_json
from durable_context.compaction.counting import count_failed
from durable_context.contracts import NodeRange
from durable_context.database import Pool, acquired
from durable_context.errors import StalePlan
from durable_context.models import Summary
from durable_context.prices import price_of
from durable_context.store import SUMMARY_COLUMNS, summary_from_row
from durable_context.summarizers import Attempt, SummaryDraft

# A row of the branch is updated only once it has come out of here.
_LOCKED = (
    "with locked as materialized (select branch_uuid from durable_context.branches"
    " where tenant = $1 and branch_uuid = $2 for no key update)"
)


_FOUND = "s.state in ('draft', 'current')"
_FINISHED = "s.state in ('superseded', 'rejected')"


class TurnSource(NamedTuple):
    """What of a turn its leaf needs besides the messages. `tokens`: as the turn is stored."""

    content_hash: bytes
    tokens: int


class NewSummary(NamedTuple):
    """A draft and what is stored with it. `recipe` is what was asked, `draft.made_by` did so."""

    node: NodeRange
    recipe: str
    input_hash: bytes
    draft: SummaryDraft
    token_count: int
    input_tokens: int
    covered_tokens: int
    degraded: bool


class DraftStore:
    """Drafts of one branch of one tenant."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid

    async def sources(self, from_turn: int, to_turn: int) -> list[TurnSource]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select content_hash, stored_tokens from durable_context.visible_turns"
                " where tenant = $1 and seen_by = $2 and turn_no between $3 and $4"
                " order by turn_no",
                self._tenant,
                self._branch,
                from_turn,
                to_turn,
            )
        return [TurnSource(*row) for row in rows]

    async def children(self, node: NodeRange, drafts: Sequence[UUID]) -> list[Summary]:
        """The nodes that `node` merges, oldest first: published ones, or of the given drafts."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SUMMARY_COLUMNS} from durable_context.visible_summaries"
                " where tenant = $1 and seen_by = $2 and level = $3"
                " and from_turn >= $4 and to_turn <= $5"
                f" union all select {SUMMARY_COLUMNS} from durable_context.summaries"
                " where tenant = $1 and branch_uuid = $2 and level = $3"
                " and from_turn >= $4 and to_turn <= $5"
                " and state = 'draft' and summary_id = any($6::uuid[])"
                " order by from_turn",
                self._tenant,
                self._branch,
                node.level - 1,
                node.from_turn,
                node.to_turn,
                drafts,
            )
        return [summary_from_row(row) for row in rows]

    async def check_running(self, compaction_id: UUID) -> None:
        """Raises StalePlan where the compaction has come to its end."""
        async with acquired(self._pool) as connection:
            is_running = await connection.fetchval(
                "select exists (select from durable_context.compactions where tenant = $1"
                " and branch_uuid = $2 and compaction_id = $3 and status = 'running')",
                self._tenant,
                self._branch,
                compaction_id,
            )
        if not is_running:
            raise StalePlan(f"compaction {compaction_id} has ended")

    async def find(
        self, node: NodeRange, recipe: str, input_hash: bytes, *, anew: bool = False
    ) -> Summary | None:
        """`anew`: only what is not published yet, and not degraded."""
        states = "s.state = 'draft' and not s.degraded" if anew else _FOUND
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"select {SUMMARY_COLUMNS} from durable_context.summaries s"
                " where tenant = $1 and branch_uuid = $2 and level = $3 and from_turn = $4"
                " and to_turn = $5 and recipe = $6 and input_hash = $7"
                f" and {states} order by revision desc limit 1",
                self._tenant,
                self._branch,
                node.level,
                node.from_turn,
                node.to_turn,
                recipe,
                input_hash,
            )
        return summary_from_row(row) if row else None

    async def inherited(self, node: NodeRange, recipe: str, input_hash: bytes) -> Summary | None:
        """What an ancestor has published for the same input, also after the branch was forked.

        Degraded nodes are left to the ancestor: its child tries again.
        """
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"select {SUMMARY_COLUMNS} from (select l.depth, s.* from durable_context.lineage l"
                " join durable_context.summaries s"
                " on s.tenant = l.tenant and s.branch_uuid = l.ancestor_uuid"
                " and s.to_turn <= l.to_turn"
                " where l.tenant = $1 and l.branch_uuid = $2 and l.depth > 0"
                " and s.level = $3 and s.from_turn = $4 and s.to_turn = $5 and s.recipe = $6"
                " and s.input_hash = $7 and s.state = 'current' and not s.degraded) published"
                " order by depth limit 1",
                self._tenant,
                self._branch,
                node.level,
                node.from_turn,
                node.to_turn,
                recipe,
                input_hash,
            )
        return summary_from_row(row) if row else None

    async def keep(self, new: NewSummary, *, anew: bool = False) -> Summary:
        """Store the draft, unless somebody else was faster: then theirs is returned."""
        added = await self.add(new, anew=anew)
        if added is not None:
            return added
        target = (new.node, new.recipe, new.input_hash)
        kept = await self.find(*target, anew=anew) or await self.find(*target)
        assert kept is not None
        return kept

    async def add(self, new: NewSummary, *, anew: bool = False) -> Summary | None:
        """Store the draft; None where somebody else was faster.

        `anew`: as a revision after the published one.
        """
        earlier = "s.state <> 'draft' or s.degraded" if anew else _FINISHED
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "insert into durable_context.summaries (tenant, branch_uuid, level, from_turn,"
                " to_turn, recipe, input_hash, revision, headline, text, token_count,"
                " input_tokens, covered_tokens, made_by, degraded, usage)"
                " select $1, $2, $3, $4, $5, $6, $7, coalesce(max(s.revision), 0) + 1,"
                " $8, $9, $10, $11, $12, $13, $14, $15"
                " from durable_context.summaries s where s.tenant = $1 and s.branch_uuid = $2"
                " and s.level = $3 and s.from_turn = $4 and s.to_turn = $5 and s.recipe = $6"
                f" and s.input_hash = $7 and ({earlier})"
                f" on conflict do nothing returning {SUMMARY_COLUMNS}",
                self._tenant,
                self._branch,
                new.node.level,
                new.node.from_turn,
                new.node.to_turn,
                new.recipe,
                new.input_hash,
                new.draft.headline,
                new.draft.text,
                new.token_count,
                new.input_tokens,
                new.covered_tokens,
                new.draft.made_by,
                new.degraded,
                stored_json.dumps({"attempts": _dumped(new.draft.attempts)}),
            )
        return summary_from_row(row) if row else None

    async def count_attempt(
        self,
        compaction_id: UUID,
        recipe: str,
        calls: Sequence[Attempt],
        error: str | None,
        *,
        failed: bool,
    ) -> None:
        """Note on the compaction how each call of a summarizer went.

        Until it is published a compaction counts failed attempts; the one that succeeds is added
        when it is, so that merges do not look like retries. Tokens and price count all calls.
        """
        price = await price_of(calls)
        async with acquired(self._pool) as connection:
            await connection.execute(
                f"{_LOCKED} update durable_context.compactions c set"
                " attempts = c.attempts + $7::boolean::integer,"
                " usage = (c.usage::jsonb || $4::text::jsonb)::json, recipe = $5,"
                " input_tokens = c.input_tokens + $8, output_tokens = c.output_tokens + $9,"
                " price = c.price + $10,"
                " error = coalesce($6, c.error) from locked l"
                " where c.tenant = $1 and c.branch_uuid = l.branch_uuid and c.compaction_id = $3",
                self._tenant,
                self._branch,
                compaction_id,
                stored_json.dumps(_dumped(calls)),
                recipe,
                error,
                failed,
                sum(call.input_tokens for call in calls),
                sum(call.output_tokens for call in calls),
                price,
            )

    async def fail(self, compaction_id: UUID, error: str) -> None:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"{_LOCKED} update durable_context.compactions c set status = 'failed', error = $4,"
                " finished_at = clock_timestamp() from locked l"
                " where c.tenant = $1 and c.branch_uuid = l.branch_uuid and c.compaction_id = $3"
                " and c.status = 'running' returning c.reason",
                self._tenant,
                self._branch,
                compaction_id,
                error,
            )
        count_failed(row["reason"] for row in rows)


class DraftParts:
    """A `PartStore`: what a summarizer has made of parts of a large input, kept for its retry."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID, recipe: str) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid
        self._recipe = recipe

    async def load(self, input_hash: bytes) -> SummaryDraft | None:
        async with acquired(self._pool) as connection:
            text = await connection.fetchval(
                "select draft from durable_context.summary_parts where tenant = $1"
                " and branch_uuid = $2 and recipe = $3 and input_hash = $4",
                self._tenant,
                self._branch,
                self._recipe,
                input_hash,
            )
        return SummaryDraft.model_validate(stored_json.loads(text)) if text else None

    async def save(self, input_hash: bytes, draft: SummaryDraft) -> None:
        async with acquired(self._pool) as connection:
            await connection.execute(
                "insert into durable_context.summary_parts"
                " (tenant, branch_uuid, recipe, input_hash, draft) values ($1, $2, $3, $4, $5)"
                " on conflict do nothing",
                self._tenant,
                self._branch,
                self._recipe,
                input_hash,
                stored_json.dumps(draft.model_dump(mode="json")),
            )


def _dumped(attempts: Sequence[Attempt]) -> list[dict[str, object]]:
    return [attempt.model_dump(exclude_defaults=True) for attempt in attempts]
