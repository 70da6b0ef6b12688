"""Branches, turns, summaries and checkpoints in PostgreSQL. Every statement filters on the
tenant.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.artifact_contents import KeptContents
from durable_context.database import Pool, acquired
from durable_context.errors import (
    BranchConflict,
    HeadConflict,
    InvalidArgument,
    TurnKeyConflict,
    UnknownBranch,
)
from durable_context.models import (
    Ancestor,
    BranchInfo,
    Checkpoint,
    Compaction,
    Outcome,
    Summary,
    Turn,
)
from durable_context.recording import TurnRow

TURN_COLUMNS = (
    "turn_no, turn_key, messages, token_count, outcome, continues, occurred_at, recorded_at,"
    " digest, ledger, usage, metadata"
)
SUMMARY_COLUMNS = (
    "summary_id, level, from_turn, to_turn, headline, text, token_count, recipe, made_by, revision,"
    " degraded, input_tokens, covered_tokens, usage, created_at"
)
CHECKPOINT_COLUMNS = (
    "checkpoint_id, turn_no, parent_id, frontier, ledger, text, token_count, token_usage,"
    " artifact_handles, schema_version, created_at"
)
COMPACTION_COLUMNS = (
    "compaction_id, from_turn, to_turn, status, reason, attempts, error, recipe, tokens_before,"
    " tokens_after, usage, workflow_id, run_id, started_at, finished_at"
)


class BranchRow(NamedTuple):
    """What of a branch never changes."""

    branch_uuid: UUID
    parent_id: str | None
    fork_turn: int | None
    encoding: str


class BranchFigures(NamedTuple):
    """What of a branch changes with each turn."""

    head_turn: int
    head_tokens: int
    open_run_turn: int | None
    encoding: str


class Recorded(NamedTuple):
    """What record_turn returned. `uncompacted_tokens` counts turns after the newest checkpoint."""

    turn_no: int
    head_turn: int
    recorded_at: datetime
    repeated: bool
    checkpoint_turn: int
    uncompacted_tokens: int


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

    async def open_branch(
        self, conversation_id: str, branch_id: str, *, encoding: str, text_search: str
    ) -> BranchRow:
        """The branch, made if absent. One round trip when it exists."""
        row = await self._find_branch(conversation_id, branch_id)
        if row is None:
            async with acquired(self._pool) as connection:
                await connection.execute(
                    "insert into durable_context.branches"
                    " (tenant, conversation_id, branch_id, encoding, text_search)"
                    " values ($1, $2, $3, $4, $5::text::regconfig) on conflict do nothing",
                    self._tenant,
                    conversation_id,
                    branch_id,
                    encoding,
                    text_search,
                )
            row = await self.find_branch(conversation_id, branch_id)
        return row

    async def find_branch(self, conversation_id: str, branch_id: str) -> BranchRow:
        """The branch, or UnknownBranch."""
        row = await self._find_branch(conversation_id, branch_id)
        if row is None:
            raise UnknownBranch(
                f"tenant {self._tenant!r} has no branch {branch_id!r} of conversation"
                f" {conversation_id!r}"
            )
        return row

    async def _find_branch(self, conversation_id: str, branch_id: str) -> BranchRow | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select b.branch_uuid, p.branch_id as parent_id, b.fork_turn, b.encoding"
                " from durable_context.branches b"
                " left join durable_context.branches p"
                " on p.tenant = b.tenant and p.branch_uuid = b.parent_uuid"
                " where b.tenant = $1 and b.conversation_id = $2 and b.branch_id = $3",
                self._tenant,
                conversation_id,
                branch_id,
            )
        return BranchRow(*row) if row else None

    async def fork_branch(
        self, parent: UUID, parent_id: str, branch_id: str, at_turn: int | None, keep_raw_turns: int
    ) -> BranchRow:
        """One round trip, whatever the parent holds. Repeated, it returns the branch that is there.

        Raises UnknownBranch, InvalidArgument, BranchConflict.
        """
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select * from durable_context.fork_branch($1, $2, $3, $4, $5)",
                self._tenant,
                parent,
                branch_id,
                at_turn,
                keep_raw_turns,
            )
        assert row is not None
        if row["status"] == "unknown_branch":
            raise UnknownBranch(f"there is no branch {parent} for this tenant")
        if row["status"] == "no_such_turn":
            raise InvalidArgument(f"at_turn={at_turn}; allowed are 0 to {row['head_turn']}")
        if row["status"] == "id_taken":
            where = f" at turn {at_turn}" if at_turn is not None else ""
            raise BranchConflict(
                f"branch {branch_id!r} of the conversation exists and is not a fork of"
                f" {parent_id!r}{where}"
            )
        return BranchRow(row["branch_uuid"], parent_id, row["fork_turn"], row["encoding"])

    async def branches(self, conversation_id: str) -> tuple[BranchInfo, ...]:
        """The tree of a conversation, parents before their children."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select b.conversation_id, b.branch_id, b.branch_uuid, p.branch_id as parent_id,"
                " b.fork_turn, b.head_turn, b.checkpoint_turn, b.created_at, b.last_turn_at"
                " from durable_context.branches b"
                " left join durable_context.branches p"
                " on p.tenant = b.tenant and p.branch_uuid = b.parent_uuid"
                " where b.tenant = $1 and b.conversation_id = $2"
                " order by (select count(*) from durable_context.lineage l"
                " where l.tenant = $1 and l.branch_uuid = b.branch_uuid),"
                " b.created_at, b.branch_id",
                self._tenant,
                conversation_id,
            )
        return tuple(BranchInfo.model_validate(dict(row)) for row in rows)

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
                "select * from durable_context.record_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
                " $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,"
                " $27, $28, $29, $30)",
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
                row.search_text,
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
        )

    async def branch_head(self, branch_uuid: UUID) -> BranchFigures:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select head_turn, head_tokens, open_run_turn, encoding"
                " from durable_context.branches"
                " where tenant = $1 and branch_uuid = $2",
                self._tenant,
                branch_uuid,
            )
        if row is None:
            raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
        return BranchFigures(*row)

    async def lineage(self, branch_uuid: UUID) -> tuple[Ancestor, ...]:
        """The branch, its parent and so on, to the root."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select b.conversation_id, b.branch_id, b.branch_uuid, l.from_turn,"
                " least(l.to_turn, b.head_turn) as to_turn"
                " from durable_context.lineage l join durable_context.branches b"
                " on b.tenant = l.tenant and b.branch_uuid = l.ancestor_uuid"
                " where l.tenant = $1 and l.branch_uuid = $2 order by l.depth",
                self._tenant,
                branch_uuid,
            )
        return tuple(Ancestor.model_validate(dict(row)) for row in rows)

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

    async def summaries(self, branch_uuid: UUID) -> tuple[Summary, ...]:
        """Current nodes of all levels that the branch sees, by first turn, then level."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {SUMMARY_COLUMNS} from durable_context.visible_summaries"
                " where tenant = $1 and seen_by = $2 order by from_turn, level",
                self._tenant,
                branch_uuid,
            )
        return tuple(summary_from_row(row) for row in rows)

    async def checkpoints(self, branch_uuid: UUID) -> tuple[Checkpoint, ...]:
        """All checkpoints that the branch sees, oldest first."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {CHECKPOINT_COLUMNS} from durable_context.visible_checkpoints"
                " where tenant = $1 and seen_by = $2 order by turn_no",
                self._tenant,
                branch_uuid,
            )
        return tuple(checkpoint_from_row(row) for row in rows)

    async def compactions(self, branch_uuid: UUID, limit: int) -> tuple[Compaction, ...]:
        """The newest `limit` compactions, newest first."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {COMPACTION_COLUMNS} from durable_context.compactions where tenant = $1"
                " and branch_uuid = $2 order by started_at desc, from_turn desc limit $3",
                self._tenant,
                branch_uuid,
                limit,
            )
        return tuple(_compaction_from_row(row) for row in rows)


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


def _compaction_from_row(row: asyncpg.Record) -> Compaction:
    return Compaction.model_validate(dict(row) | {"usage": _json(row["usage"])})


def _json(text: str | None) -> Any:
    return None if text is None else stored_json.loads(text)
