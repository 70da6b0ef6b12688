"""Turns, summaries and checkpoints in PostgreSQL, as a branch sees them. Every statement filters on
the tenant.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.artifacts.contents import KeptContents
from durable_context.database import Pool, acquired
from durable_context.errors import (
    HeadConflict,
    TurnKeyConflict,
    UnknownBranch,
)
from durable_context.models import (
    Checkpoint,
    Outcome,
    Summary,
    Turn,
)
from durable_context.turns.row import TurnRow

TURN_COLUMNS = (
    "turn_no, turn_key, messages, token_count, outcome, continues, occurred_at, recorded_at,"
    " digest, ledger, usage, metadata"
)
_SUMMARY = (
    "summary_id, level, from_turn, to_turn, headline, text, token_count, recipe, made_by, revision,"
    " degraded, input_tokens, covered_tokens, usage, created_at"
)
SUMMARY_COLUMNS = f"{_SUMMARY}, state"
SEEN_SUMMARY_COLUMNS = f"{_SUMMARY}, 'current' as state"
"""To whoever sees it, it is, whatever the branch that made it has done since."""
_CHECKPOINT = (
    "checkpoint_id, turn_no, parent_id, frontier, ledger, text, token_count, token_usage,"
    " artifact_handles, schema_version, created_at, revision"
)
CHECKPOINT_COLUMNS = f"{_CHECKPOINT}, state"
SEEN_CHECKPOINT_COLUMNS = f"{_CHECKPOINT}, 'current' as state"


class Recorded(NamedTuple):
    """What record_turn returned. `uncompacted_tokens` counts turns after the newest checkpoint;
    `is_paused`: the branch is, or its tenant.
    """

    turn_no: int
    head_turn: int
    recorded_at: datetime
    repeated: bool
    checkpoint_turn: int
    uncompacted_tokens: int
    is_paused: bool = False


class PromptRecord(NamedTuple):
    """The manifest of the prompt that led to a turn, and what that prompt was made with."""

    manifest: str
    parts_hash: bytes
    parts: str


class Store:
    """One tenant's view of the database."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def record_turn(
        self,
        branch_uuid: UUID,
        turn_key: str,
        row: TurnRow,
        *,
        expected_head: int | None,
        outcome: Outcome,
        continues: bool,
        occurred_at: datetime | None,
        usage: dict[str, Any] | None,
        metadata: dict[str, Any] | None,
        prompt: PromptRecord | None,
        kept: KeptContents | None,
    ) -> Recorded:
        """Record a turn: one round trip, one transaction.

        Raises TurnKeyConflict, HeadConflict, UnknownBranch.
        """
        async with acquired(self._pool) as connection:
            result = await connection.fetchrow(
                "select r.*, (select p.paused_at is not null or exists (select"
                " from durable_context.tenants t where t.tenant = $1 and t.paused_at is not null)"
                " from durable_context.branches p where p.tenant = $1 and p.branch_uuid = $2)"
                " as is_paused"
                " from durable_context.record_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
                " $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,"
                " $27, $28, $29, $30, $31, $32) r",
                self._tenant,
                branch_uuid,
                turn_key,
                row.content_hash,
                expected_head,
                row.messages,
                row.message_tokens,
                row.views,
                row.token_count,
                row.stored_tokens,
                row.raw_tokens,
                outcome,
                continues,
                row.begins_run,
                row.digest,
                row.digest_tokens,
                row.ledger,
                row.search_texts,
                row.search_terms,
                row.speakers,
                occurred_at,
                stored_json.dumps(usage) if usage is not None else None,
                stored_json.dumps(metadata) if metadata is not None else None,
                prompt.manifest if prompt else None,
                prompt.parts_hash if prompt else None,
                prompt.parts if prompt else None,
                row.artifacts,
                *(kept or (None, None, None, None, None)),
            )
        assert result is not None
        _raise_refusal(result, turn_key, branch_uuid, expected_head)
        return Recorded(
            turn_no=result["turn_no"],
            head_turn=result["head_turn"],
            recorded_at=result["recorded_at"],
            repeated=result["status"] == "repeated",
            checkpoint_turn=result["checkpoint_turn"],
            uncompacted_tokens=result["uncompacted_tokens"],
            is_paused=result["is_paused"],
        )

    async def turns(self, branch_uuid: UUID, from_turn: int, to_turn: int) -> tuple[Turn, ...]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {TURN_COLUMNS} from durable_context.visible_turns where tenant = $1"
                " and seen_by = $2 and turn_no between $3 and $4 order by turn_no",
                self._tenant,
                branch_uuid,
                from_turn,
                to_turn,
            )
        return tuple(turn_from_row(row) for row in rows)

    async def summaries(self, branch_uuid: UUID, *, replaced: bool = False) -> tuple[Summary, ...]:
        """Nodes of all levels that the branch sees, by first turn, then level; with `replaced`
        those of its own, too, that were replaced or rejected.
        """
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SEEN_SUMMARY_COLUMNS} from durable_context.visible_summaries"
                " where tenant = $1 and seen_by = $2"
                f" union all select {SUMMARY_COLUMNS} from durable_context.summaries where $3"
                " and tenant = $1 and branch_uuid = $2 and replaced_in is not null"
                " and published_in is not null order by from_turn, level, created_at",
                self._tenant,
                branch_uuid,
                replaced,
            )
        return tuple(summary_from_row(row) for row in rows)

    async def checkpoints(
        self, branch_uuid: UUID, *, replaced: bool = False
    ) -> tuple[Checkpoint, ...]:
        """All checkpoints that the branch sees, oldest first; with `replaced` those of its own,
        too, that were replaced or rejected.
        """
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SEEN_CHECKPOINT_COLUMNS} from durable_context.visible_checkpoints"
                " where tenant = $1 and seen_by = $2"
                f" union all select {CHECKPOINT_COLUMNS} from durable_context.checkpoints where $3"
                " and tenant = $1 and branch_uuid = $2 and replaced_in is not null"
                " order by turn_no, revision",
                self._tenant,
                branch_uuid,
                replaced,
            )
        return tuple(checkpoint_from_row(row) for row in rows)


def _raise_refusal(
    result: asyncpg.Record, turn_key: str, branch_uuid: UUID, expected_head: int | None
) -> None:
    status = result["status"]
    if status == "unknown_branch":
        raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
    if status == "key_conflict":
        raise TurnKeyConflict(
            f"turn key {turn_key!r} was used for turn {result['turn_no']} with other content; a new"
            " turn needs a key of its own",
            turn_key,
            result["turn_no"],
        )
    if status == "head_conflict":
        assert expected_head is not None
        raise HeadConflict(
            f"the branch is at turn {result['head_turn']}, not at turn {expected_head} as expected;"
            " prepare again, or record with on_conflict='append'",
            expected_head,
            result["head_turn"],
        )


def turn_from_row(row: asyncpg.Record) -> Turn:
    """A turn from a row of TURN_COLUMNS."""
    return Turn.model_validate(
        dict(row)
        | {
            "messages": stored_json.loads(row["messages"]),
            "ledger": stored_json.load_ledger(stored_json.loads(row["ledger"]), row["turn_no"]),
            "digest": row["digest"].strip(),
            "usage": _json(row["usage"]),
            "metadata": _json(row["metadata"]),
        }
    )


def summary_from_row(row: asyncpg.Record) -> Summary:
    """A summary from a row of SUMMARY_COLUMNS."""
    return Summary.model_validate(dict(row) | {"usage": _json(row["usage"])})


def checkpoint_from_row(row: asyncpg.Record) -> Checkpoint:
    """A checkpoint from a row of CHECKPOINT_COLUMNS."""
    return Checkpoint.model_validate(
        dict(row)
        | {
            "ledger": stored_json.load_ledger(stored_json.loads(row["ledger"])),
            "token_usage": _json(row["token_usage"]),
        }
    )


def _json(text: str | None) -> Any:
    return None if text is None else stored_json.loads(text)
