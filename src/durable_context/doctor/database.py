"""PostgreSQL: reached, new enough, migrated, allowed what it takes, and on time."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg

from durable_context.database import Connection, Pool, acquired
from durable_context.doctor.diagnosis import Diagnosis, failed, ok, warning
from durable_context.errors import DurableContextError
from durable_context.migrations import migration_names

OLDEST = 150_000
"""As server_version_num counts: PostgreSQL 15."""
LARGEST_SKEW = 2.0
"""Seconds. Ages are by the database's clock, waits by this machine's."""
MIGRATE = "run `python -m durable_context.migrations`"

_ROLE = """
select current_user::text as role, r.rolsuper as is_superuser,
    has_schema_privilege('durable_context', 'usage') as has_usage,
    array(
        select c.relname::text from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'durable_context' and c.relkind in ('r', 'v', 'p') and not (
            has_table_privilege(c.oid, 'select') and (
                c.relkind = 'v' or c.relname = 'migrations'
                or (has_table_privilege(c.oid, 'insert') and has_table_privilege(c.oid, 'update')
                    and has_table_privilege(c.oid, 'delete'))
            )
        ) order by c.relname
    ) as tables,
    array(
        select distinct p.proname::text from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'durable_context' and not has_function_privilege(p.oid, 'execute')
        order by 1
    ) as functions
from pg_catalog.pg_roles r where r.rolname = current_user
"""

Look = Callable[[Connection], Awaitable[Diagnosis]]


async def database_diagnoses(pool: Pool) -> tuple[Diagnosis, ...]:
    """The database itself and its schema; only the first where it cannot be reached."""
    try:
        async with acquired(pool) as connection:
            diagnoses = [await _version(connection)]
            for check, look in _CHECKS.items():
                diagnoses.append(await _looked(check, look, connection))
    except (DurableContextError, asyncpg.PostgresError, TimeoutError) as error:
        return (unreachable(str(error) or type(error).__name__),)
    return tuple(diagnoses)


def unreachable(why: str) -> Diagnosis:
    mend = (
        "start PostgreSQL, or name a running one in DURABLE_CONTEXT_DATABASE_URL or with"
        " --database-url; `python -m worker dev` starts one and prints its URL"
    )
    return failed("database", why, mend)


async def _looked(check: str, look: Look, connection: Connection) -> Diagnosis:
    try:
        return await look(connection)
    except asyncpg.PostgresError as error:
        return failed(check, f"cannot be looked at: {error!s:.300}", MIGRATE)


async def _version(connection: Connection) -> Diagnosis:
    number = int(await connection.fetchval("show server_version_num"))
    shown = f"PostgreSQL {await connection.fetchval('show server_version')}"
    if number < OLDEST:
        return failed("database", f"{shown} is too old", "use PostgreSQL 15 or newer")
    return ok("database", shown)


async def _migrations(connection: Connection) -> Diagnosis:
    is_there = "select to_regclass('durable_context.migrations') is not null"
    if not await connection.fetchval(is_there):
        return failed("migrations", "the database has no durable_context schema", MIGRATE)
    rows = await connection.fetch("select name from durable_context.migrations")
    applied, known = {row["name"] for row in rows}, set(migration_names())
    if missing := sorted(known - applied):
        return failed("migrations", f"missing: {', '.join(missing)}", MIGRATE)
    if newer := sorted(applied - known):
        message = f"the schema is newer than this version: {', '.join(newer)}"
        return warning("migrations", message, "upgrade durable-context here")
    return ok("migrations", f"all {len(known)} applied")


async def _role(connection: Connection) -> Diagnosis:
    if not await connection.fetchval("select to_regnamespace('durable_context') is not null"):
        return failed("role", "there is no durable_context schema to use", MIGRATE)
    row: Any = await connection.fetchrow(_ROLE)
    role = row["role"]
    if not row["has_usage"]:
        mend = f'grant usage on schema durable_context to "{role}"'
        return failed("role", f"{role} may not use the schema durable_context", mend)
    if row["tables"]:
        mend = (
            "grant select, insert, update, delete on all tables in schema durable_context to"
            f' "{role}"'
        )
        return failed("role", f"{role} may not use {_some(row['tables'])}", mend)
    if row["functions"]:
        mend = f'grant execute on all functions in schema durable_context to "{role}"'
        return failed("role", f"{role} may not call {_some(row['functions'])}", mend)
    more = "; it is a superuser, which is not needed" if row["is_superuser"] else ""
    return ok("role", f"{role} may use all of it{more}")


async def _vectors(connection: Connection) -> Diagnosis:
    if await connection.fetchval("select durable_context.keeps_embeddings()"):
        return ok("pgvector", "there; vectors are kept where the worker has an embedder")
    return ok("pgvector", "not there; retrieval goes by words alone")


async def _clock(connection: Connection) -> Diagnosis:
    """Compared with the middle of the time that asking took."""
    before, began = datetime.now(UTC), time.monotonic()
    found: datetime = await connection.fetchval("select clock_timestamp()")
    took = time.monotonic() - began
    skew = (found - before).total_seconds() - took / 2
    if abs(skew) > LARGEST_SKEW + took / 2:
        which = "ahead of" if skew > 0 else "behind"
        message = f"the database is {abs(skew):.1f} s {which} this machine"
        return warning("clock", message, "let both keep time by NTP")
    return ok("clock", f"within {abs(skew):.1f} s of this machine")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


_CHECKS: dict[str, Look] = {
    "migrations": _migrations,
    "role": _role,
    "pgvector": _vectors,
    "clock": _clock,
}
