"""Branches and their lineage in PostgreSQL. Every statement filters on the tenant."""

from typing import Any, NamedTuple
from uuid import UUID

from durable_context.control.pausing import pauses_of
from durable_context.database import Connection, Pool, acquired
from durable_context.errors import BranchConflict, InvalidArgument, UnknownBranch
from durable_context.models import Ancestor, BranchInfo

TEXT_SEARCH = "english"


class BranchRow(NamedTuple):
    """What of a branch never changes."""

    branch_uuid: UUID
    parent_id: str | None
    fork_turn: int | None
    encoding: str
    parent_uuid: UUID | None
    text_search: str | None = None


class BranchFigures(NamedTuple):
    """What of a branch changes with each turn."""

    head_turn: int
    head_tokens: int
    open_run_turn: int | None
    encoding: str


class BranchStore:
    """One tenant's branches."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def open(
        self, conversation_id: str, branch_id: str, *, encoding: str, text_search: str | None
    ) -> BranchRow:
        """The branch, made if absent. One round trip when it exists.

        Raises InvalidArgument where it cannot be made, or is there, with that `text_search`.
        """
        row = await self._find(conversation_id, branch_id)
        if row is None:
            await self._make(
                conversation_id,
                branch_id,
                encoding,
                TEXT_SEARCH if text_search is None else text_search,
            )
            row = await self.find(conversation_id, branch_id)
        if text_search is not None and text_search != row.text_search:
            raise InvalidArgument(
                f"text_search={text_search!r:.80}; branch {branch_id!r} of the conversation was"
                f" made with {row.text_search!r}, which cannot be changed"
            )
        return row

    async def _make(
        self, conversation_id: str, branch_id: str, encoding: str, text_search: str
    ) -> None:
        async with acquired(self._pool) as connection:
            if text_search != TEXT_SEARCH:
                await _check_text_search(connection, text_search)
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

    async def find(self, conversation_id: str, branch_id: str) -> BranchRow:
        """The branch, or UnknownBranch."""
        row = await self._find(conversation_id, branch_id)
        if row is None:
            raise UnknownBranch(
                f"tenant {self._tenant!r} has no branch {branch_id!r} of conversation"
                f" {conversation_id!r}"
            )
        return row

    async def _find(self, conversation_id: str, branch_id: str) -> BranchRow | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select b.branch_uuid, p.branch_id as parent_id, b.fork_turn, b.encoding,"
                " b.parent_uuid, b.text_search::text as text_search"
                " from durable_context.branches b"
                " left join durable_context.branches p"
                " on p.tenant = b.tenant and p.branch_uuid = b.parent_uuid"
                " where b.tenant = $1 and b.conversation_id = $2 and b.branch_id = $3",
                self._tenant,
                conversation_id,
                branch_id,
            )
        return BranchRow(*row) if row else None

    async def fork(
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
        return BranchRow(row["branch_uuid"], parent_id, row["fork_turn"], row["encoding"], parent)

    async def of_conversation(self, conversation_id: str) -> tuple[BranchInfo, ...]:
        """The tree of a conversation, parents before their children."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select b.conversation_id, b.branch_id, b.branch_uuid, p.branch_id as parent_id,"
                " b.fork_turn, b.head_turn, b.checkpoint_turn, b.created_at, b.last_turn_at,"
                " b.head_tokens, b.checkpoint_tokens,"
                " b.paused_at, b.paused_because, t.paused_at as tenant_paused_at,"
                " t.paused_because as tenant_paused_because"
                " from durable_context.branches b"
                " left join durable_context.tenants t on t.tenant = b.tenant"
                " left join durable_context.branches p"
                " on p.tenant = b.tenant and p.branch_uuid = b.parent_uuid"
                " where b.tenant = $1 and b.conversation_id = $2"
                " order by (select count(*) from durable_context.lineage l"
                " where l.tenant = $1 and l.branch_uuid = b.branch_uuid),"
                " b.created_at, b.branch_id",
                self._tenant,
                conversation_id,
            )
        return tuple(_branch_info(dict(row)) for row in rows)

    async def head(self, branch_uuid: UUID) -> BranchFigures:
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


def _branch_info(row: dict[str, Any]) -> BranchInfo:
    own = ("branch", row.pop("paused_at"), row.pop("paused_because"))
    tenants = ("tenant", row.pop("tenant_paused_at"), row.pop("tenant_paused_because"))
    return BranchInfo(**row, pauses=pauses_of([own, tenants]))


async def _check_text_search(connection: Connection, text_search: str) -> None:
    known: list[str] = await connection.fetchval(
        "select array_agg(c.cfgname::text order by c.cfgname)"
        " from pg_catalog.pg_ts_config c where pg_catalog.pg_ts_config_is_visible(c.oid)"
    )
    if text_search not in known:
        raise InvalidArgument(f"text_search={text_search!r:.80}; allowed are {', '.join(known)}")
