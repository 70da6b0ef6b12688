"""Branches and tenants whose compaction is paused: in PostgreSQL, where every plan reads it. Every
statement filters on the tenant.
"""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg

from durable_context.database import Pool, acquired
from durable_context.errors import CompactionPaused, InvalidArgument, UnknownBranch
from durable_context.models import Pause
from durable_context.text import clean

LONGEST: Final = 500
"""Characters of a reason."""


class Pausing:
    """Of one tenant. A branch is compacted when neither it nor its tenant is paused."""

    def __init__(self, pool: Pool, tenant: str) -> None:
        self._pool = pool
        self._tenant = tenant

    async def pause_branch(self, branch_uuid: UUID, because: str | None) -> Pause:
        """Paused before, it stays so since then, with the new reason if there is one."""
        row = await self._change_branch(
            "update durable_context.branches set"
            " paused_at = coalesce(paused_at, clock_timestamp()),"
            " paused_because = coalesce($3, paused_because)"
            " where tenant = $1 and branch_uuid = $2 returning paused_at, paused_because",
            branch_uuid,
            checked_reason(because),
        )
        return Pause(of="branch", since=row["paused_at"], because=row["paused_because"])

    async def resume_branch(self, branch_uuid: UUID) -> int:
        """Its newest turn."""
        row = await self._change_branch(
            "update durable_context.branches set paused_at = null, paused_because = null"
            " where tenant = $1 and branch_uuid = $2 returning head_turn",
            branch_uuid,
        )
        return row["head_turn"]

    async def pause_tenant(self, because: str | None) -> Pause:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "insert into durable_context.tenants as t (tenant, paused_at, paused_because)"
                " values ($1, clock_timestamp(), $2) on conflict (tenant) do update set"
                " paused_at = coalesce(t.paused_at, excluded.paused_at),"
                " paused_because = coalesce(excluded.paused_because, t.paused_because)"
                " returning paused_at, paused_because",
                self._tenant,
                checked_reason(because),
            )
        assert row is not None
        return Pause(of="tenant", since=row["paused_at"], because=row["paused_because"])

    async def resume_tenant(self) -> None:
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update durable_context.tenants set paused_at = null, paused_because = null"
                " where tenant = $1 and paused_at is not null",
                self._tenant,
            )

    async def of_tenant(self) -> Pause | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select 'tenant', paused_at, paused_because from durable_context.tenants"
                " where tenant = $1",
                self._tenant,
            )
        return next(iter(pauses_of([tuple(row)])), None) if row else None

    async def of_branch(self, branch_uuid: UUID) -> tuple[Pause, ...]:
        """The branch's own, then its tenant's."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select 'branch', paused_at, paused_because from durable_context.branches"
                " where tenant = $1 and branch_uuid = $2"
                " union all select 'tenant', paused_at, paused_because"
                " from durable_context.tenants where tenant = $1",
                self._tenant,
                branch_uuid,
            )
        return pauses_of([tuple(row) for row in rows])

    async def refuse(self, branch_uuid: UUID, name: str) -> None:
        """Raises CompactionPaused where it is, which calls the branch by `name`."""
        pauses = await self.of_branch(branch_uuid)
        if pauses:
            raise CompactionPaused(paused_message(pauses, name))

    async def _change_branch(
        self, statement: str, branch_uuid: UUID, *values: object
    ) -> asyncpg.Record:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(statement, self._tenant, branch_uuid, *values)
        if row is None:
            raise UnknownBranch(f"there is no branch {branch_uuid} for this tenant")
        return row


def pauses_of(rows: Sequence[Sequence[Any]]) -> tuple[Pause, ...]:
    """`rows`: whose, since when or None, why or None."""
    return tuple(Pause(of=of, since=since, because=because) for of, since, because in rows if since)


def paused_message(pauses: Sequence[Pause], name: str) -> str:
    pause = pauses[0]
    whose = f"{name} is paused" if pause.of == "branch" else f"the tenant of {name} is paused"
    why = f" ({pause.because})" if pause.because else ""
    return f"{whose} since {pause.since:%Y-%m-%d %H:%M:%S} UTC{why}: nothing is compacted"


def checked_reason(because: str | None) -> str | None:
    """As it is stored. Raises InvalidArgument where it is no text, or too long a one."""
    if because is None:
        return None
    text = clean(because).strip() if isinstance(because, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
    if not text or len(text) > LONGEST:
        allowed = f"text of 1 to {LONGEST} characters"
        raise InvalidArgument(f"because={because!r:.80}; allowed is {allowed}")
    return text
