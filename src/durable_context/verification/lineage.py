"""The branch among its ancestors: what it sees of them is what its parent saw when it was made."""

from collections.abc import AsyncIterator
from typing import Any

from durable_context.verification.findings import Finding
from durable_context.verification.subject import Look

ENDLESS = 2**31 - 1
NEWEST = 2**63 - 1

_LINEAGE = """
select l.depth, l.ancestor_uuid, l.from_turn, l.to_turn, l.compacted_turn, l.artifact_limit,
    l.publication, a.publication as newest
from durable_context.lineage l
left join durable_context.branches a on a.tenant = l.tenant and a.branch_uuid = l.ancestor_uuid
where l.tenant = $1 and l.branch_uuid = coalesce($3::uuid, $2) order by l.depth
"""
_PARENT = """
select b.conversation_id, b.head_turn, b.publication from durable_context.branches b
where b.tenant = $1 and b.branch_uuid = $3 and b.branch_uuid <> $2
"""
_ARTIFACTS = """
select count(*) as artifacts, coalesce(min(a.artifact_no), 0) as first,
    coalesce(max(a.artifact_no), 0) as last
from durable_context.artifacts a where a.tenant = $1 and a.branch_uuid = $2
"""


async def lineage_findings(look: Look) -> AsyncIterator[Finding]:
    """Of the rows of lineage, and of the parent."""
    subject = look.subject
    own = await look.rows(_LINEAGE, None)
    if subject.parent_uuid is None:
        parents: list[Any] = []
    else:
        parents = await look.rows(_LINEAGE, subject.parent_uuid)
        parent = await look.row(_PARENT, subject.parent_uuid)
        if wrong := _wrong_parent(look, parent):
            yield subject.finding("lineage", *wrong, ids=[subject.parent_uuid])
    if len(own) != len(parents) + 1:
        yield subject.finding(
            "lineage", f"{len(parents) + 1} rows of lineage", f"{len(own)} rows of lineage"
        )
        return
    for row, inherited in zip(own, [None, *parents], strict=True):
        for name, expected, found in _differences(look, row, inherited):
            yield subject.finding(
                "lineage", f"{name} {expected}", f"{name} {found}", ids=[row["ancestor_uuid"]]
            )


async def artifact_number_findings(look: Look) -> AsyncIterator[Finding]:
    """Artifacts count on along the lineage, without holes."""
    subject = look.subject
    own = await look.row(_ARTIFACTS)
    rows = await look.rows(_LINEAGE, None)
    inherited = rows[1]["artifact_limit"] if len(rows) > 1 else 0
    expected = inherited + own["artifacts"]
    if expected != subject.artifact_count:
        yield subject.finding(
            "branch_artifacts", f"{expected} artifacts", f"{subject.artifact_count} artifacts"
        )
    if own["artifacts"] and (own["first"], own["last"]) != (inherited + 1, expected):
        yield subject.finding(
            "branch_artifacts",
            f"artifacts {inherited + 1}-{expected}",
            f"artifacts {own['first']}-{own['last']}",
        )


def _wrong_parent(look: Look, parent: Any) -> tuple[str, str] | None:
    subject = look.subject
    if parent is None:
        return "a parent", "none"
    if parent["conversation_id"] != subject.conversation_id:
        return "a parent in the same conversation", "one in another"
    if parent["head_turn"] < (subject.fork_turn or 0):
        return f"a parent with turn {subject.fork_turn}", f"its head is {parent['head_turn']}"
    if parent["publication"] < (subject.parent_publication or 0):
        expected = f"a parent with publication {subject.parent_publication}"
        return expected, f"its newest is {parent['publication']}"
    return None


def _differences(look: Look, row: Any, inherited: Any) -> list[tuple[str, object, object]]:
    """Name, what is expected and what is found."""
    subject, fork_turn = look.subject, look.subject.fork_turn or 0
    if inherited is None:
        exact = {
            "ancestor": subject.branch_uuid,
            "from_turn": fork_turn + 1,
            "to_turn": ENDLESS,
            "compacted_turn": ENDLESS,
            "artifact_limit": ENDLESS,
            "publication": NEWEST,
        }
        most: dict[str, int] = {}
    else:
        exact = {
            "ancestor": inherited["ancestor_uuid"],
            "from_turn": inherited["from_turn"],
            "to_turn": min(inherited["to_turn"], fork_turn),
        }
        most = {
            "compacted_turn": min(inherited["compacted_turn"], fork_turn),
            "artifact_limit": inherited["artifact_limit"],
            "publication": row["newest"] or 0,
        }
    found = dict(row) | {"ancestor": row["ancestor_uuid"]}
    differing = [(name, value, found[name]) for name, value in exact.items()]
    beyond = [(name, f"up to {value}", found[name]) for name, value in most.items()]
    return [
        *(one for one in differing if one[1] != one[2]),
        *(one for one in beyond if one[2] > most[one[0]]),
    ]
