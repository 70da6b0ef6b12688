"""Recording one turn: compute its row, keep its artifacts, commit it, tell Temporal."""

import asyncio
import hashlib
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from durable_context.artifacts.contents import check_size
from durable_context.artifacts.offloading import Original
from durable_context.models import Message, Outcome, Turn
from durable_context.policy import CompactionPolicy
from durable_context.prompts.prepared import PreparedContext
from durable_context.resources import Resources
from durable_context.store import PromptRecord, Recorded
from durable_context.telemetry.instruments import artifact_bytes
from durable_context.tokens import token_counter
from durable_context.turns.messages import characters
from durable_context.turns.row import TurnRow, turn_row
from durable_context.turns.usage import learn

THREAD_CHARACTERS = 100_000
"""Above this, computing takes long enough for others on the event loop to notice."""


class NewTurn(NamedTuple):
    """A turn as the caller gave it, checked."""

    messages: tuple[Message, ...]
    turn_key: str
    outcome: Outcome
    continues: bool
    occurred_at: datetime | None
    usage: dict[str, Any] | None
    metadata: dict[str, Any] | None
    prepared: PreparedContext | None
    expected_head: int | None
    originals: tuple[Original, ...] = ()


async def record(
    resources: Resources, branch_uuid: UUID, encoding: str, policy: CompactionPolicy, new: NewTurn
) -> tuple[Recorded, Turn]:
    """Commit the turn with its artifacts, or find it committed."""
    texts = [message.content for message in new.messages]
    for text in [*texts, *(original.content for original in new.originals)]:
        if isinstance(text, str):
            check_size(len(text))
    row = await _row(new, encoding, policy)
    kept = None
    if row.contents:
        kept = await resources.contents.keep(resources.tenant, row.contents)
    recorded = await resources.store.record_turn(
        branch_uuid,
        new.turn_key,
        row,
        expected_head=new.expected_head,
        outcome=new.outcome,
        continues=new.continues,
        occurred_at=new.occurred_at,
        usage=new.usage,
        metadata=new.metadata,
        prompt=_prompt_record(new.prepared),
        kept=kept,
    )
    if recorded.repeated:  # with the handles, and as the policy, of the first time
        known = await resources.store.turns(branch_uuid, recorded.turn_no, recorded.turn_no)
        return recorded, known[0].model_copy(update={"repeated": True})
    if kept is not None:
        artifact_bytes.add(sum(kept.sizes), {"source": "offloaded"})
    await learn(resources.pool, resources.tenant, new.prepared, new.usage)
    return recorded, _turn(new, row, recorded)


async def _row(new: NewTurn, encoding: str, policy: CompactionPolicy) -> TurnRow:
    compute = partial(
        turn_row,
        new.messages,
        outcome=new.outcome,
        continues=new.continues,
        occurred_at=new.occurred_at,
        policy=policy,
        counter=token_counter(encoding),
        originals=new.originals,
    )
    originals = sum(len(original.content) for original in new.originals)
    if characters(new.messages) + originals > THREAD_CHARACTERS:
        return await asyncio.to_thread(compute)
    return compute()


def _turn(new: NewTurn, row: TurnRow, recorded: Recorded) -> Turn:
    return Turn(
        turn_no=recorded.turn_no,
        turn_key=new.turn_key,
        messages=row.stored,
        token_count=row.token_count,
        outcome=new.outcome,
        continues=new.continues,
        occurred_at=new.occurred_at or recorded.recorded_at,
        recorded_at=recorded.recorded_at,
        digest=row.digest.strip(),
        ledger=tuple(
            entry.model_copy(update={"turn_no": recorded.turn_no}) for entry in row.entries
        ),
        usage=new.usage,
        metadata=new.metadata,
        repeated=recorded.repeated,
    )


def _prompt_record(prepared: PreparedContext | None) -> PromptRecord | None:
    if prepared is None:
        return None
    parts = prepared.budget.parts()
    manifest = prepared.manifest.model_dump_json(exclude_defaults=True)
    return PromptRecord(manifest, hashlib.sha256(parts.encode()).digest(), parts)
