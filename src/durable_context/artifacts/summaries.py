"""Summaries of artifacts in PostgreSQL, and which are due. Every statement filters on the tenant.

A summary belongs to a content and a recipe: whichever branch or turn brings the same content finds
it there.
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from durable_context import stored_json
from durable_context.artifacts.contents import StoredContent
from durable_context.contracts import TurnRange
from durable_context.database import Pool, acquired
from durable_context.summarizers import SummaryDraft

# What the turns brought is to have a summary before they get theirs. Besides, the branch takes up
# whatever retrieval does not find yet: what earlier compactions missed, what was put by name, and
# what no ancestor has come to. $1 tenant, $2 branch, $3 and $4 turns, $5 recipe.
_COLUMNS = (
    "a.tenant, a.branch_uuid, a.artifact_no, a.turn_no, a.sha256, a.size, a.media_type,"
    " a.line_count, a.width, a.height, a.created_at"
)
_LACKING = f"""
    select {_COLUMNS} from durable_context.visible_artifacts a
    where a.tenant = $1 and a.seen_by = $2 and a.source <> 'put' and a.turn_no between $3 and $4
        and not exists (
            select from durable_context.artifact_summaries s
            where s.tenant = a.tenant and s.sha256 = a.sha256 and s.recipe = $5
        )
"""
_UNINDEXED = f"""
    select {_COLUMNS} from durable_context.visible_artifacts a
    where a.tenant = $1 and a.seen_by = $2 and (a.source = 'put' or a.turn_no <= $4)
        and not exists (
            select from durable_context.lineage l join durable_context.indexed_documents i
                on i.branch_uuid = l.ancestor_uuid and i.to_turn = a.turn_no
                and i.artifact_no = a.artifact_no
            where l.branch_uuid = $2 and a.artifact_no <= l.artifact_limit
        )
"""
_COUNT_DUE = f"select count(*) from ({_LACKING} union {_UNINDEXED}) due"
_DUE = f"""
select f.sha256, f.size, f.media_type, f.line_count, f.width, f.height, f.turn_no, f.created_at
from (
    select distinct on (d.sha256) d.* from ({_LACKING} union {_UNINDEXED}) d
    where not exists (
        select from durable_context.artifact_summaries s
        where s.tenant = d.tenant and s.sha256 = d.sha256 and s.recipe = $5
    )
    order by d.sha256, d.turn_no, d.artifact_no, d.branch_uuid
) f
order by f.turn_no, f.artifact_no, f.sha256
offset $6 limit $7
"""


class DueArtifact(NamedTuple):
    """The first of the artifacts whose content has no summary."""

    sha256: bytes
    size: int
    media_type: str
    line_count: int | None
    width: int | None
    height: int | None
    turn_no: int
    created_at: datetime


class NewArtifactSummary(NamedTuple):
    """A checked draft and what is stored with it."""

    sha256: bytes
    recipe: str
    draft: SummaryDraft
    token_count: int
    input_tokens: int
    degraded: bool


class ToldArtifact(NamedTuple):
    """What a summarizer of turns is told of an artifact. `tokens` are those of the text."""

    headline: str
    text: str
    tokens: int


class ArtifactSummaries:
    """Artifacts as one branch's compaction sees them."""

    def __init__(self, pool: Pool, tenant: str, branch_uuid: UUID) -> None:
        self._pool = pool
        self._tenant = tenant
        self._branch = branch_uuid

    async def count_due(self, turns: TurnRange, recipe: str) -> int:
        """Artifacts that compaction has to summarize, to index or both. `turns`: the next segment,
        or none after the newest checkpoint.
        """
        async with acquired(self._pool) as connection:
            return await connection.fetchval(
                _COUNT_DUE, self._tenant, self._branch, turns.from_turn, turns.to_turn, recipe
            )

    async def due(
        self, turns: TurnRange, recipe: str, *, skip: int, limit: int
    ) -> list[DueArtifact]:
        """Those to summarize, each content once, always in the same order."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _DUE,
                self._tenant,
                self._branch,
                turns.from_turn,
                turns.to_turn,
                recipe,
                skip,
                limit,
            )
        return [DueArtifact(*row) for row in rows]

    async def content(self, sha256: bytes) -> StoredContent:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select sha256, size, compression, data, object_key"
                " from durable_context.artifact_contents where tenant = $1 and sha256 = $2",
                self._tenant,
                sha256,
            )
        assert row is not None
        return StoredContent(*row)

    async def of_turns(self, turns: TurnRange, recipe: str) -> dict[str, ToldArtifact]:
        """Summaries of what the turns brought, by handle."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select a.handle, s.headline, s.text, s.token_count"
                " from durable_context.visible_artifacts a"
                " join durable_context.artifact_summaries s"
                " on s.tenant = a.tenant and s.sha256 = a.sha256 and s.recipe = $5"
                " where a.tenant = $1 and a.seen_by = $2 and a.source <> 'put'"
                " and a.turn_no between $3 and $4",
                self._tenant,
                self._branch,
                turns.from_turn,
                turns.to_turn,
                recipe,
            )
        return {row[0]: ToldArtifact(*row[1:]) for row in rows}

    async def keep(self, new: NewArtifactSummary) -> None:
        """Store the summary, unless somebody else was faster."""
        usage = [attempt.model_dump(exclude_defaults=True) for attempt in new.draft.attempts]
        async with acquired(self._pool) as connection:
            await connection.execute(
                "insert into durable_context.artifact_summaries (tenant, sha256, recipe, headline,"
                " text, token_count, input_tokens, made_by, degraded, usage)"
                " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing",
                self._tenant,
                new.sha256,
                new.recipe,
                new.draft.headline,
                new.draft.text,
                new.token_count,
                new.input_tokens,
                new.draft.made_by,
                new.degraded,
                stored_json.dumps({"attempts": usage}),
            )
