"""Rows that belong to nothing: of a branch, and of no branch at all."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from durable_context.database import Pool, acquired
from durable_context.verification.findings import IDS, Check, Finding, Severity
from durable_context.verification.subject import Look

STUCK_AFTER = timedelta(days=1)
"""A compaction that has been running for so long has nobody who runs it."""
PROBES = 20_000
"""Branches whose rows one statement looks for."""


class Leftovers(NamedTuple):
    """A statement that finds rows with `from_turn`, `to_turn` and `id`."""

    check: Check
    expected: str
    statement: str
    severity: Severity = "warning"


_OF_BRANCH = (
    Leftovers(
        "content_missing",
        "the content of the artifact",
        """
select a.turn_no as from_turn, a.turn_no as to_turn, a.handle as id
from durable_context.artifacts a left join durable_context.artifact_contents c
    on c.tenant = a.tenant and c.sha256 = a.sha256
where a.tenant = $1 and a.branch_uuid = $2 and c.size is distinct from a.size
order by a.artifact_no""",
        "error",
    ),
    Leftovers(
        "turn_artifacts",
        "a turn that brought the artifact",
        """
select a.turn_no as from_turn, a.turn_no as to_turn, a.handle as id
from durable_context.artifacts a
where a.tenant = $1 and a.branch_uuid = $2 and a.source <> 'put' and not exists (
    select from durable_context.turns t
    where t.tenant = $1 and t.branch_uuid = $2 and t.turn_no = a.turn_no
) order by a.artifact_no""",
        "error",
    ),
    Leftovers(
        "pin_turn",
        "the pinned turn",
        """
select p.turn_no as from_turn, p.turn_no as to_turn, p.kind as id from durable_context.pins p
where p.tenant = $1 and p.branch_uuid = $2 and not exists (
    select from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no = p.turn_no
) order by p.turn_no""",
    ),
    Leftovers(
        "compaction_stuck",
        "an end within a day",
        """
select c.from_turn, c.to_turn, c.compaction_id::text as id from durable_context.compactions c
where c.tenant = $1 and c.branch_uuid = $2 and c.status = 'running'
    and c.started_at < now() - $3::interval
order by c.started_at""",
    ),
    Leftovers(
        "orphan_document",
        "the node or artifact of the document",
        """
select d.from_turn, d.to_turn, format('level %s artifact %s', d.level, d.artifact_no) as id
from durable_context.indexed_documents d
where d.tenant = $1 and d.branch_uuid = $2 and case when d.artifact_no <= 0 then not exists (
    select from durable_context.summaries s
    where s.tenant = $1 and s.branch_uuid = $2 and s.level = d.level
        and s.from_turn = d.from_turn and s.to_turn = d.to_turn and s.state <> 'draft'
) else not exists (
    select from durable_context.visible_artifacts a
    where a.tenant = $1 and a.seen_by = $2 and a.artifact_no = d.artifact_no
) end
order by d.to_turn, d.level, d.artifact_no""",
    ),
    Leftovers(
        "orphan_posting",
        "the document of the postings",
        """
select p.to_turn as from_turn, p.to_turn, format('level %s artifact %s', p.level, p.artifact_no)
    as id
from durable_context.branches b
join durable_context.postings p on p.branch_uuid = b.branch_uuid
where b.tenant = $1 and b.branch_uuid = $2 and not exists (
    select from durable_context.indexed_documents d
    where d.tenant = $1 and d.branch_uuid = $2 and d.to_turn = p.to_turn and d.level = p.level
        and d.artifact_no = p.artifact_no
)
group by p.to_turn, p.level, p.artifact_no order by p.to_turn, p.level, p.artifact_no""",
    ),
)
_VECTORS = Leftovers(
    "orphan_vector",
    "the leaf of the vectors",
    """
select v.from_turn, v.to_turn, v.model as id from durable_context.leaf_signatures v
where v.tenant = $1 and v.branch_uuid = $2 and not exists (
    select from durable_context.summaries s
    where s.tenant = $1 and s.branch_uuid = $2 and s.level = 0 and s.from_turn = v.from_turn
        and s.to_turn = v.to_turn and s.state <> 'draft'
) order by v.to_turn""",
)
_HAS_VECTORS = "select to_regclass('durable_context.leaf_signatures') is not null"

_TABLES = (
    *("turns", "summaries", "checkpoints", "compactions", "artifacts", "indexed_documents"),
    *("lineage", "pins", "events", "summary_parts"),
)
# The next branches that have rows, whether they are there or not: a probe of the index for each.
# $1 None: of all tenants.
_NEXT = """
with recursive named as (
    (select x.branch_uuid from durable_context.{table} x where x.branch_uuid > $2
    order by x.branch_uuid limit 1)
    union all
    select (select x.branch_uuid from durable_context.{table} x
        where x.branch_uuid > n.branch_uuid order by x.branch_uuid limit 1)
    from named n where n.branch_uuid is not null
)
select n.branch_uuid, b.branch_uuid is null and {of_tenant} as orphaned
from (select branch_uuid from named where branch_uuid is not null limit {probes}) n
left join durable_context.branches b on b.branch_uuid = n.branch_uuid
order by n.branch_uuid
"""
_OF_TENANT = (
    "($1::text is null or exists (select from durable_context.{table} x"
    " where x.branch_uuid = n.branch_uuid and x.tenant = $1))"
)


async def leftover_findings(look: Look) -> AsyncIterator[Finding]:
    """Rows of the branch that belong to nothing it has, and work that nobody does any more."""
    kinds = list(_OF_BRANCH)
    if await look.connection.fetchval(_HAS_VECTORS):
        kinds.append(_VECTORS)
    for kind in kinds:
        arguments = [STUCK_AFTER] if kind.check == "compaction_stuck" else []
        for row in await look.rows(f"{kind.statement} limit {IDS}", *arguments):
            yield look.subject.finding(
                kind.check,
                kind.expected,
                "none" if kind.check != "compaction_stuck" else "running still",
                turns=(row["from_turn"], row["to_turn"]),
                ids=[row["id"]] if row["id"] else [],
                severity=kind.severity,
            )


async def unowned_findings(
    pool: Pool, tenant: str | None, alive: Callable[[], None]
) -> AsyncIterator[Finding]:
    """Rows of branches that are not there; None as tenant: of any. Postings bear no tenant and are
    nobody's then.
    """
    for table in (*_TABLES, "postings"):
        ids: list[str] = []
        after: UUID | None = UUID(int=0)
        while after is not None:
            alive()
            found, after = await _unowned(pool, tenant, table, after)
            ids += found[: IDS - len(ids)]
        if ids:
            yield Finding(
                check="orphan_row",
                severity="warning",
                ids=tuple(ids),
                expected=f"the branch of {table}",
                found="none",
            )


async def _unowned(
    pool: Pool, tenant: str | None, table: str, after: UUID
) -> tuple[list[str], UUID | None]:
    """Branches that are not there, and the last one looked for, if there may be more."""
    of_tenant = _OF_TENANT if table != "postings" else "($1::text is null or true)"
    statement = _NEXT.format(table=table, of_tenant=of_tenant.format(table=table), probes=PROBES)
    async with acquired(pool) as connection:
        rows = await connection.fetch(statement, tenant, after)
    orphaned = [str(row["branch_uuid"]) for row in rows if row["orphaned"]]
    return orphaned, rows[-1]["branch_uuid"] if len(rows) == PROBES else None
