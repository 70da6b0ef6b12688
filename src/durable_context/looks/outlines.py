"""Turns without their messages, for lists of them."""

from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.database import Pool, acquired
from durable_context.errors import InvalidArgument
from durable_context.models import LedgerEntry, Outcome, Value

MOST_OUTLINES: Final = 500

_OUTLINES: Final = """
select t.turn_no, t.turn_key, t.token_count, t.stored_tokens, t.message_tokens, t.outcome,
    t.continues, t.occurred_at, t.digest, t.ledger, t.branch_uuid <> $2 as inherited
from durable_context.visible_turns t
where t.tenant = $1 and t.seen_by = $2 and t.turn_no between $3 and $4 order by t.turn_no
"""


class TurnOutline(Value):
    """A turn without its messages. `message_tokens` are those of each, whole; `stored_tokens` of
    all as they are stored, where artifacts stand as views.
    """

    turn_no: int
    turn_key: str
    token_count: int
    stored_tokens: int
    message_tokens: tuple[int, ...]
    outcome: Outcome
    continues: bool
    occurred_at: datetime
    digest: str
    ledger: tuple[LedgerEntry, ...]
    inherited: bool


async def turn_outlines(
    pool: Pool, tenant: str, branch_uuid: UUID, from_turn: int, to_turn: int
) -> tuple[TurnOutline, ...]:
    """Raises InvalidArgument where they are too many at once."""
    if to_turn - from_turn >= MOST_OUTLINES:
        raise InvalidArgument(
            f"turns {from_turn} to {to_turn}; {MOST_OUTLINES} are read at once at most"
        )
    async with acquired(pool) as connection:
        rows = await connection.fetch(_OUTLINES, tenant, branch_uuid, from_turn, to_turn)
    return tuple(map(_outline, rows))


def _outline(row: asyncpg.Record) -> TurnOutline:
    ledger = stored_json.load_ledger(stored_json.loads(row["ledger"]), row["turn_no"])
    return TurnOutline.model_validate(
        dict(row) | {"ledger": ledger, "digest": row["digest"].strip()}
    )
