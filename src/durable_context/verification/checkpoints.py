"""Checkpoints: as they were written, each over turns 1 to its own once, the newest one in use."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from durable_context.verification.findings import IDS, Finding
from durable_context.verification.nodes import disorder_of
from durable_context.verification.subject import Look

PAGE = 100

# Of the frontier: ids of no node of the lineage, the first turn that is left out or there twice,
# and the last turn.
_PAGE = f"""
select c.checkpoint_id, c.turn_no, c.revision, c.state, c.published_in, c.replaced_in,
    c.stored_hash = durable_context.hash_of(c.text, c.sections::text, c.ledger::text) as stored,
    f.missing, f.broken_at, f.last_turn
from (
    select c.* from durable_context.checkpoints c
    where c.tenant = $1 and c.branch_uuid = $2 and (c.turn_no, c.revision) > ($3, $4)
    order by c.turn_no, c.revision limit {PAGE}
) c cross join lateral (
    select array_agg(n.summary_id order by n.position) filter (where n.to_turn is null) as missing,
        min(n.before + 1) filter (where n.from_turn <> n.before + 1) as broken_at,
        max(n.to_turn) as last_turn
    from (
        select f.summary_id, f.position, s.from_turn, s.to_turn,
            coalesce(lag(s.to_turn) over (order by f.position), case f.position when 1 then 0 end)
                as before
        from unnest(c.frontier) with ordinality f (summary_id, position)
        left join durable_context.summaries s on s.tenant = c.tenant
            and s.summary_id = f.summary_id and s.state <> 'draft'
            and exists (
                select from durable_context.lineage l
                where l.branch_uuid = c.branch_uuid and l.ancestor_uuid = s.branch_uuid
            )
    ) n
) f
order by c.turn_no, c.revision
"""

_TWICE = f"""
select c.turn_no, array_agg(c.checkpoint_id order by c.checkpoint_id) as ids
from durable_context.visible_checkpoints c where c.tenant = $1 and c.seen_by = $2
group by c.turn_no having count(*) > 1 order by c.turn_no limit {IDS}
"""

# Nodes of the newest frontier for which none stands by now.
_UNREPLACED = f"""
select o.level, o.from_turn, o.to_turn, o.summary_id
from durable_context.visible_checkpoints c cross join unnest(c.frontier) f (summary_id)
join durable_context.summaries o on o.tenant = c.tenant and o.summary_id = f.summary_id
where c.tenant = $1 and c.seen_by = $2 and c.turn_no = $3 and not exists (
    select from durable_context.visible_summaries s
    where s.tenant = $1 and s.seen_by = $2 and s.level = o.level and s.from_turn = o.from_turn
        and s.to_turn = o.to_turn
)
order by o.from_turn limit {IDS}
"""

_NEWEST = """
select durable_context.newest_checkpoint($2, 2147483647) as turn_no, (
    select coalesce(max(t.head_tokens), 0) from durable_context.visible_turns t
    where t.tenant = $1 and t.seen_by = $2 and t.turn_no = $3
) as tokens
"""


class CheckpointsOf:
    """The checkpoints that a branch published itself, and the newest that it sees."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.checkpoints = 0

    async def findings(self) -> AsyncIterator[Finding]:
        last = (0, 0)
        while rows := await self._look.rows(_PAGE, *last):
            for row in rows:
                for finding in self._of_checkpoint(row):
                    yield finding
            last = (rows[-1]["turn_no"], rows[-1]["revision"])
            self.checkpoints += len(rows)
        for row in await self._look.rows(_TWICE):
            yield self._look.subject.finding(
                "checkpoint_order",
                "one checkpoint",
                "several",
                turns=(row["turn_no"], row["turn_no"]),
                ids=row["ids"],
            )
        for finding in await self._of_newest():
            yield finding

    def _of_checkpoint(self, row: Any) -> list[Finding]:
        found: list[Finding] = []
        subject = self._look.subject
        turn_no = row["turn_no"]
        here = (turn_no, turn_no)
        finding = partial(subject.finding, turns=here, ids=[row["checkpoint_id"]])
        if row["stored"] is False:
            expected = "the text, sections and ledger of its hash"
            found.append(finding("checkpoint_hash", expected, "others"))
        if disorder := disorder_of(row, subject.publication):
            found.append(finding("checkpoint_order", *disorder))
        if row["missing"]:
            ids = [row["checkpoint_id"], *row["missing"]]
            expected = "nodes of the lineage in its frontier"
            missing = f"{len(row['missing'])} that are not there"
            found.append(
                subject.finding("checkpoint_cover", expected, missing, turns=(1, turn_no), ids=ids)
            )
        elif row["broken_at"] is not None or row["last_turn"] != turn_no:
            expected = f"turns 1-{turn_no} once"
            gap = f"broken at turn {row['broken_at'] or row['last_turn'] + 1}"
            found.append(finding("checkpoint_cover", expected, gap))
        return found

    async def _of_newest(self) -> list[Finding]:
        subject = self._look.subject
        newest = await self._look.row(_NEWEST, subject.checkpoint_turn)
        figures = {
            "checkpoint_turn": (newest["turn_no"], subject.checkpoint_turn),
            "checkpoint_tokens": (newest["tokens"], subject.checkpoint_tokens),
        }
        found = [
            subject.finding("branch_checkpoint", f"{name} {expected}", f"{name} {found}")
            for name, (expected, found) in figures.items()
            if expected != found
        ]
        for row in await self._look.rows(_UNREPLACED, newest["turn_no"]):
            here = (row["from_turn"], row["to_turn"])
            expected = f"a level {row['level']} node in use"
            found.append(
                subject.finding(
                    "checkpoint_cover", expected, "none", turns=here, ids=[row["summary_id"]]
                )
            )
        return found
