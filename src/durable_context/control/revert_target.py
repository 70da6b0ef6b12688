"""The checkpoint that a branch is to go back to: which it may be, and what is said of others."""

from typing import NamedTuple
from uuid import UUID

from durable_context.arguments import LARGEST
from durable_context.database import Connection
from durable_context.errors import CheckpointNotFound, InvalidArgument

NAMED = 20
"""Turns that a message lists: the newest."""

_OWN = """
select c.checkpoint_id, c.turn_no, c.state, c.published_in from durable_context.checkpoints c
where c.tenant = $1 and c.branch_uuid = $2 order by c.turn_no, c.revision
"""
_INHERITED = """
select c.checkpoint_id, c.turn_no from durable_context.visible_checkpoints c
where c.tenant = $1 and c.seen_by = $2 and c.branch_uuid <> $2 order by c.turn_no
"""
_BASE = """
select coalesce(max(l.compacted_turn), 0) from durable_context.lineage l
where l.tenant = $1 and l.branch_uuid = $2 and l.depth > 0
"""


class Target(NamedTuple):
    """Where to go back to: a checkpoint of the branch's own, or what it began with, which for a
    fork is a checkpoint of an ancestor and for others none. `publication`: what the branch had
    published when it stood there.
    """

    turn_no: int
    checkpoint_id: UUID | None
    is_own: bool
    is_current: bool
    publication: int


class _Own(NamedTuple):
    checkpoint_id: UUID
    turn_no: int
    state: str
    published_in: int

    @property
    def target(self) -> Target:
        return Target(
            self.turn_no, self.checkpoint_id, True, self.state == "current", self.published_in
        )


def check_target(to: object) -> None:
    """Raises InvalidArgument."""
    if isinstance(to, UUID):
        return
    if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= LARGEST:
        raise InvalidArgument(
            f"to={to!r:.80}; allowed are the turn of a checkpoint, its id, and 0 for none at all"
        )


async def find_target(
    connection: Connection, tenant: str, branch_uuid: UUID, to: int | UUID
) -> Target:
    """Raises CheckpointNotFound, InvalidArgument."""
    own = [_Own(*row) for row in await connection.fetch(_OWN, tenant, branch_uuid)]
    inherited = await connection.fetch(_INHERITED, tenant, branch_uuid)
    base_turn = await connection.fetchval(_BASE, tenant, branch_uuid)
    by_turn = {row["turn_no"]: row["checkpoint_id"] for row in inherited}
    base = Target(base_turn, by_turn.get(base_turn), False, True, 0)
    if isinstance(to, UUID):
        return _by_id(to, own, by_turn, base)
    return _by_turn(to, own, base)


def _by_turn(to: int, own: list[_Own], base: Target) -> Target:
    if to == base.turn_no:
        return base
    for one in own:
        if one.turn_no == to and one.state == "current":
            return one.target
    if to < base.turn_no:
        raise _too_early(f"to={to}", own, base)
    raise CheckpointNotFound(
        f"to={to}: the branch has no checkpoint at that turn; {_allowed(own, base)}"
    )


def _by_id(to: UUID, own: list[_Own], inherited: dict[int, UUID], base: Target) -> Target:
    for one in own:
        if one.checkpoint_id == to and one.state == "rejected":
            raise InvalidArgument(
                f"to={to}: the checkpoint of turn {one.turn_no} was rejected by a revert, which is"
                f" for good; {_allowed(own, base)}"
            )
        if one.checkpoint_id == to:
            return one.target
    if to == base.checkpoint_id:
        return base
    if to in inherited.values():
        raise _too_early(f"to={to}", own, base)
    raise CheckpointNotFound(f"to={to}: the branch has no such checkpoint; {_allowed(own, base)}")


def _too_early(asked: str, own: list[_Own], base: Target) -> InvalidArgument:
    return InvalidArgument(
        f"{asked}: the branch was forked with the checkpoint of turn {base.turn_no}, and goes back"
        f" no further; {_allowed(own, base)}"
    )


def _allowed(own: list[_Own], base: Target) -> str:
    turns = [base.turn_no, *(one.turn_no for one in own if one.state == "current")]
    shown = ", ".join(str(turn) for turn in turns[-NAMED:])
    earlier = "earlier ones, " if len(turns) > NAMED else ""
    return f"allowed are turns {earlier}{shown}"
