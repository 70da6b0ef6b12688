"""Pins: turns, and facts of their ledgers, that stand word for word in every prompt of a branch,
however often their turns are compacted.
"""

import difflib
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from durable_context import stored_json
from durable_context.arguments import LARGEST
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import InvalidArgument, UnknownBranch
from durable_context.models import LedgerKind, Value
from durable_context.showing import shown

MOST_PINS: Final = 100
"""Of a branch. No budget shortens what is pinned."""
_NEAREST: Final = 3


class Pin(Value):
    """A pinned turn, or with `kind` and `value` a fact of its ledger. A fork's pins were pinned
    when its parent's were.
    """

    turn_no: int
    kind: LedgerKind | None
    value: str | None
    pinned_at: datetime


class PinStore:
    """Pins of one tenant's branches."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def pin(self, branch_uuid: UUID, turn_no: int, fact: str | None) -> Pin:
        """Idempotent. Raises InvalidArgument, UnknownBranch."""
        _check_fact(fact)
        async with acquired(self._pool) as connection, connection.transaction():
            head_turn = await self._lock(connection, branch_uuid)
            if not 1 <= turn_no <= head_turn:
                raise InvalidArgument(f"turn_no={turn_no}; {_allowed(head_turn)}")
            kind, value = "", ""
            if fact is not None:
                kind, value = await self._fact(connection, branch_uuid, turn_no, fact)
            key = self._tenant, branch_uuid, turn_no, kind, value
            row = await connection.fetchrow(_FIND, *key)
            if row is None:
                await self._check_room(connection, branch_uuid)
                row = await connection.fetchrow(_PIN, *key)
            assert row is not None
            return _pin(row)

    async def unpin(self, branch_uuid: UUID, turn_no: int, fact: str | None) -> bool:
        """Whether it was pinned. Idempotent. Raises InvalidArgument, UnknownBranch."""
        _check_fact(fact)
        async with acquired(self._pool) as connection, connection.transaction():
            await self._lock(connection, branch_uuid)
            gone = await connection.fetch(_UNPIN, self._tenant, branch_uuid, turn_no, fact or "")
            return bool(gone)

    async def pins(self, branch_uuid: UUID) -> tuple[Pin, ...]:
        """By turn; a turn before its facts. Raises UnknownBranch."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_PINS, self._tenant, branch_uuid)
        if not rows:
            raise self._unknown(branch_uuid)
        return tuple(_pin(row) for row in rows if row["turn_no"] is not None)

    async def _lock(self, connection: Connection, branch_uuid: UUID) -> int:
        """The head turn, with the branch's pins to ourselves."""
        head_turn = await connection.fetchval(_LOCK, self._tenant, branch_uuid)
        if head_turn is None:
            raise self._unknown(branch_uuid)
        return head_turn

    def _unknown(self, branch_uuid: UUID) -> UnknownBranch:
        return UnknownBranch(f"there is no branch {branch_uuid} for tenant {self._tenant!r}")

    async def _fact(
        self, connection: Connection, branch_uuid: UUID, turn_no: int, fact: str
    ) -> tuple[str, str]:
        """Its kind and value in the turn's ledger, as they are there."""
        text = await connection.fetchval(_LEDGER, self._tenant, branch_uuid, turn_no)
        entries: list[dict[str, Any]] = stored_json.loads(text) if text else []
        known: dict[str, str] = {entry["value"]: entry["kind"] for entry in reversed(entries)}
        if fact not in known:
            raise InvalidArgument(f"fact={shown(fact)}; {_nearest(fact, list(known), turn_no)}")
        return known[fact], fact

    async def _check_room(self, connection: Connection, branch_uuid: UUID) -> None:
        count = await connection.fetchval(_COUNT, self._tenant, branch_uuid)
        if count >= MOST_PINS:
            raise InvalidArgument(
                f"the branch has {count} pins, which stand in each of its prompts; allowed are"
                f" {MOST_PINS}: unpin one first"
            )


_OF_BRANCH = "where tenant = $1 and branch_uuid = $2"
_LOCK = f"select head_turn from durable_context.branches {_OF_BRANCH} for no key update"
_FIND = f"""
select turn_no, kind, value, pinned_at from durable_context.pins
{_OF_BRANCH} and turn_no = $3 and kind = $4 and value = $5"""
_PIN = """
insert into durable_context.pins (tenant, branch_uuid, turn_no, kind, value)
values ($1, $2, $3, $4, $5) returning turn_no, kind, value, pinned_at"""
_UNPIN = f"""
delete from durable_context.pins {_OF_BRANCH} and turn_no = $3 and value = $4 returning turn_no"""
_PINS = """
select p.turn_no, p.kind, p.value, p.pinned_at
from durable_context.branches b
left join durable_context.pins p on p.tenant = b.tenant and p.branch_uuid = b.branch_uuid
where b.tenant = $1 and b.branch_uuid = $2
order by p.turn_no, p.kind collate "C", p.value collate "C\""""
_COUNT = f"select count(*) from durable_context.pins {_OF_BRANCH}"
_LEDGER = """
select t.ledger from durable_context.visible_turns t
where t.tenant = $1 and t.seen_by = $2 and t.turn_no = $3"""


def check_pinned_turn(turn_no: object) -> None:
    """Raises InvalidArgument."""
    if isinstance(turn_no, bool) or not isinstance(turn_no, int) or abs(turn_no) > LARGEST:
        raise InvalidArgument(f"turn_no={shown(turn_no)}; it must be the number of a turn, from 1")


def _check_fact(fact: object) -> None:
    if fact is not None and (not isinstance(fact, str) or not fact):
        raise InvalidArgument(
            f"fact={shown(fact)}; it must be a value of the turn's ledger, or None for the turn"
        )


def _allowed(head_turn: int) -> str:
    return f"allowed are 1 to {head_turn}" if head_turn else "the branch has no turn yet"


def _nearest(fact: str, known: list[str], turn_no: int) -> str:
    if not known:
        return f"the ledger of turn {turn_no} is empty: pin the turn itself"
    lowered = {value.casefold(): value for value in known}
    near = difflib.get_close_matches(fact.casefold()[:200], lowered, _NEAREST, cutoff=0.0)
    values = ", ".join(shown(lowered[one]) for one in near)
    return f"it is no value in the ledger of turn {turn_no}. The nearest are {values}"


def _pin(row: asyncpg.Record) -> Pin:
    return Pin(
        turn_no=row["turn_no"],
        kind=row["kind"] or None,
        value=row["value"] or None,
        pinned_at=row["pinned_at"],
    )
