"""What happened to a branch, in order: read from a cursor, followed as it happens, and noted where
no stored row tells it. See migrations/0004_events.sql for why none is missed.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

import asyncpg
from pydantic import ValidationError

from durable_context import stored_json
from durable_context.database import Pool, acquired
from durable_context.errors import DurableContextError, InvalidArgument, UnknownBranch
from durable_context.models import Value
from durable_context.prompts.manifest import Manifest

EventKind = Literal[
    "prepared",
    "recorded",
    "offloaded",
    "put",
    "over_budget",
    "compaction_started",
    "compaction_completed",
    "compaction_failed",
    "compaction_skipped",
    "forked",
    "reverted",
    "pinned",
    "unpinned",
    "paused",
    "resumed",
    "damaged",
]
NotedKind = Literal["over_budget", "compaction_skipped", "reverted", "damaged"]

PAGE = 200
"""Events per read while following."""
POLL_FIRST = 0.02
POLL_LONGEST = 0.5
"""Pauses while following. A NOTIFY per event would make all branches' commits wait in one line."""
KEPT = 100
"""Events that wait for a write, per branch."""
_LAST_CURSOR = 2**63 - 1
_EVENTS = """
select b.conversation_id, b.branch_id, e.event_no as cursor, e.kind, e.turn_no, e.at, e.data,
    t.manifest
from durable_context.events e
join durable_context.branches b on b.branch_uuid = e.branch_uuid
left join durable_context.turns t on e.kind = 'prepared' and t.branch_uuid = e.branch_uuid
    and t.turn_no = e.turn_no
where e.tenant = $1 and e.branch_uuid = $2"""
_NEXT = f"{_EVENTS} and e.event_no > $3 order by e.event_no limit $4"
_NEWEST = f"""{_EVENTS} and e.event_no < $3 and ($5::text[] is null or e.kind = any($5))
order by e.event_no desc limit $4"""


class ContextEvent(Value):
    """One thing that happened to a branch; `data` holds figures and ids, never content.

    Cursors are 1, 2, 3 ... along the branch, in the order of commits. `turn_no` is the turn it is
    about: the recorded one, the last of a segment, the one of a fork, else the head at that moment.
    A fork is an event of the parent (`child_id`) and of the child (`parent_id`).

    Of `data`: recorded has token_count, stored_tokens, outcome, continues, artifacts; prepared the
    prompt's blocks and reductions; over_budget limit, required, smallest; offloaded and put handle,
    source, name, version, media_type, size, token_count; compactions compaction_id, level,
    from_turn, to_turn, reason, attempts (finished ones), recipe, tokens_before, tokens_after,
    error, and where nothing was due reason and checkpoint_turn alone; reverted from_turn, to_turn,
    checkpoint_id, nodes_rejected, checkpoints_rejected, restored, because; pinned and unpinned kind
    (of a fact); damaged check, severity, from_turn, to_turn, ids, expected, found.
    """

    conversation_id: str
    branch_id: str
    cursor: int
    kind: EventKind
    turn_no: int | None
    at: datetime
    data: dict[str, Any]


class NotedEvent(NamedTuple):
    """An event that no stored row tells of."""

    kind: NotedKind
    turn_no: int | None
    data: dict[str, Any]
    at: datetime | None = None


class EventStore:
    """Events of one tenant's branches."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def read(
        self, branch_uuid: UUID, after: int = 0, limit: int = PAGE
    ) -> tuple[ContextEvent, ...]:
        """The next events after a cursor, oldest first; none if it is the newest event's.

        Raises InvalidArgument for a cursor that no event of the branch has, UnknownBranch.
        """
        _check_cursor(after)
        events = await self._next(branch_uuid, after, limit)
        if not events:
            await self._check_reached(branch_uuid, after)
        return events

    async def follow(
        self, branch_uuid: UUID, after: int = 0, *, follow: bool = True
    ) -> AsyncGenerator[ContextEvent, None]:
        """All events after a cursor, in order. Then it waits for more, or without `follow` ends.

        Raises as `read` does.
        """
        pause = POLL_FIRST
        events = await self.read(branch_uuid, after)
        while events or follow:
            for event in events:
                after = event.cursor
                yield event
            if events:
                pause = POLL_FIRST
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, POLL_LONGEST)
            events = await self._next(branch_uuid, after, PAGE)

    async def note(
        self,
        branch_uuid: UUID,
        kind: NotedKind,
        turn_no: int | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Add an event that no stored row tells of. Raises UnknownBranch."""
        await self.note_all(branch_uuid, [NotedEvent(kind, turn_no, data or {})])

    async def note_all(self, branch_uuid: UUID, events: Sequence[NotedEvent]) -> None:
        """The same for several, in order, all or none."""
        kinds, turns, data, times = zip(*events, strict=True)
        try:
            async with acquired(self._pool) as connection:
                await connection.execute(
                    "select durable_context.note_event($1, $2, n.kind, n.turn_no, n.at, n.data)"
                    " from unnest($3::text[], $4::integer[], $5::timestamptz[], $6::json[])"
                    " n (kind, turn_no, at, data)",
                    self._tenant,
                    branch_uuid,
                    kinds,
                    turns,
                    times,
                    [stored_json.dumps(figures) for figures in data],
                )
        except asyncpg.ForeignKeyViolationError:
            raise _unknown(branch_uuid) from None

    async def _next(self, branch_uuid: UUID, after: int, limit: int) -> tuple[ContextEvent, ...]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_NEXT, self._tenant, branch_uuid, after, limit)
        return tuple(_event(dict(row)) for row in rows)

    async def newest(
        self,
        branch_uuid: UUID,
        limit: int,
        before: int | None = None,
        kinds: Sequence[EventKind] = (),
    ) -> tuple[ContextEvent, ...]:
        """The newest first; with `before` those of smaller cursors. Raises InvalidArgument."""
        last = _LAST_CURSOR if before is None else before
        if isinstance(last, bool) or not isinstance(last, int) or not 1 <= last <= _LAST_CURSOR:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"before={before!r:.40}; allowed is the cursor of an event")
        if unknown := [kind for kind in kinds if kind not in get_args(EventKind)]:
            raise InvalidArgument(
                f"kinds={unknown!r:.80}; allowed are {', '.join(get_args(EventKind))}"
            )
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _NEWEST, self._tenant, branch_uuid, last, limit, list(kinds) or None
            )
        return tuple(_event(dict(row)) for row in rows)

    async def _check_reached(self, branch_uuid: UUID, after: int) -> None:
        async with acquired(self._pool) as connection:
            newest = await connection.fetchval(
                "select coalesce(max(e.event_no), 0) from durable_context.branches b"
                " left join durable_context.events e"
                " on e.tenant = b.tenant and e.branch_uuid = b.branch_uuid and e.event_no >= $3"
                " where b.tenant = $1 and b.branch_uuid = $2 group by b.branch_uuid",
                self._tenant,
                branch_uuid,
                after,
            )
        if newest is None:
            raise _unknown(branch_uuid)
        if newest < after:
            raise InvalidArgument(
                f"after={after!r:.40} is beyond the newest event of the branch; allowed are 0, for"
                " all events, and cursors of events that were read from this branch"
            )


class PendingEvents:
    """Events of what writes nothing itself, kept in this process until something is written.

    Of each branch the 100 newest are kept; what a process that is killed has not written is lost.
    """

    def __init__(self) -> None:
        self._waiting: dict[UUID, deque[NotedEvent]] = {}

    def add(
        self, branch_uuid: UUID, kind: NotedKind, turn_no: int | None, data: dict[str, Any]
    ) -> None:
        waiting = self._waiting.setdefault(branch_uuid, deque(maxlen=KEPT))
        waiting.append(NotedEvent(kind, turn_no, data, datetime.now(UTC)))

    async def flush(self, store: EventStore, branch_uuid: UUID | None = None) -> None:
        """Write what waits, of one branch or of all. What cannot be written now goes on waiting."""
        branches = [branch_uuid] if branch_uuid else list(self._waiting)
        for branch in branches:
            if waiting := self._waiting.pop(branch, None):
                await self._write(store, branch, waiting)

    async def _write(
        self, store: EventStore, branch_uuid: UUID, waiting: deque[NotedEvent]
    ) -> None:
        try:
            await store.note_all(branch_uuid, waiting)
        except UnknownBranch:
            return
        except BaseException as error:
            added = self._waiting.get(branch_uuid, ())
            self._waiting[branch_uuid] = deque([*waiting, *added], maxlen=KEPT)
            if not isinstance(error, DurableContextError):
                raise


def _check_cursor(after: object) -> None:
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after <= _LAST_CURSOR:
        raise InvalidArgument(
            f"after={after!r:.40}; allowed are 0, for all events, and the cursor of an event"
        )


def _unknown(branch_uuid: UUID) -> UnknownBranch:
    return UnknownBranch(f"there is no branch {branch_uuid} for this tenant")


def _event(row: dict[str, Any]) -> ContextEvent:
    manifest = row.pop("manifest")
    data = stored_json.loads(row["data"]) if manifest is None else _prompt_figures(manifest)
    return ContextEvent.model_validate(row | {"data": data})


def _prompt_figures(manifest: str) -> dict[str, Any]:
    """Of a prompt, by kind of block; empty where the manifest is of a shape we do not know."""
    try:
        made = Manifest.model_validate(stored_json.loads(manifest))
    except ValidationError:
        return {}
    blocks: Counter[str] = Counter()
    for block in made.blocks:
        blocks[block.kind] += block.token_count
    return {
        "head_turn": made.head_turn,
        "token_count": made.token_count,
        "blocks": dict(blocks),
        "reductions": len(made.reductions),
    }
