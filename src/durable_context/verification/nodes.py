"""Summary nodes: as they were written, made of what they were made of, published in order."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

from durable_context.verification.findings import IDS, Finding
from durable_context.verification.inputs import Children, told_hash
from durable_context.verification.subject import Look, Subject

PAGE = 50

# `made_of`: the hash of a leaf's turns, where nobody was told of artifacts in them.
_PAGE = f"""
select s.summary_id, s.level, s.from_turn, s.to_turn, s.state, s.published_in, s.replaced_in,
    s.recipe, s.input_hash, s.created_at,
    s.stored_hash = durable_context.hash_of(s.headline, s.text) as stored,
    t.turns, t.told, t.made_of
from (
    select s.* from durable_context.summaries s
    where s.tenant = $1 and s.branch_uuid = $2 and s.state <> 'draft'
        and (s.level, s.from_turn, s.summary_id) > ($3, $4, $5)
    order by s.level, s.from_turn, s.summary_id limit {PAGE}
) s
left join lateral (
    select count(*) as turns, coalesce(bool_or(t.artifact_count > 0), false) as told,
        sha256(int8send(5) || 'turns'::bytea || string_agg(
            int8send(octet_length(t.content_hash)) || t.content_hash, ''::bytea order by t.turn_no
        )) as made_of
    from (
        select t.turn_no, t.artifact_count, t.content_hash from durable_context.visible_turns t
        where t.tenant = $1 and t.seen_by = $2 and t.turn_no between s.from_turn and s.to_turn
        offset 0
    ) t
) t on s.level = 0 and s.state = 'current'
order by s.level, s.from_turn, s.summary_id
"""

# Nodes that the branch sees, by level: those that begin before the one before them ends, and
# leaves that leave turns out.
_MISPLACED = f"""
select level, from_turn, to_turn, before, summary_id, earlier_id from (
    select s.level, s.from_turn, s.to_turn, s.summary_id,
        lag(s.to_turn, 1, 0) over by_level as before, lag(s.summary_id) over by_level as earlier_id
    from durable_context.visible_summaries s where s.tenant = $1 and s.seen_by = $2
    window by_level as (partition by s.level order by s.from_turn, s.to_turn, s.published_in)
) s
where s.from_turn <= s.before or (s.level = 0 and s.from_turn > s.before + 1)
order by s.level, s.from_turn limit {IDS}
"""
_COVERED = """
select coalesce(max(s.to_turn), 0) as to_turn from durable_context.visible_summaries s
where s.tenant = $1 and s.seen_by = $2 and s.level = 0
"""
_FIRST = (-1, 0, UUID(int=0))


class NodesOf:
    """The nodes that a branch published itself. Counts while it looks."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.nodes = 0
        self.unverifiable = 0

    async def findings(self) -> AsyncIterator[Finding]:
        last: tuple[Any, ...] = _FIRST
        while rows := await self._look.rows(_PAGE, *last):
            children = await Children.of(self._look, [row for row in rows if _is_merged(row)])
            for row in rows:
                for finding in await self._of_node(row, children):
                    yield finding
            last = tuple(rows[-1][name] for name in ("level", "from_turn", "summary_id"))
            self.nodes += len(rows)
        for row in await self._look.rows(_MISPLACED):
            yield _misplaced(self._look.subject, row)
        covered = (await self._look.row(_COVERED))["to_turn"]
        newest = self._look.subject.checkpoint_turn
        if covered != newest:
            yield self._look.subject.finding(
                "node_cover", f"leaves up to turn {newest}", f"up to turn {covered}"
            )

    async def _of_node(self, row: Any, children: Children) -> list[Finding]:
        found: list[Finding] = []
        subject = self._look.subject
        here = (row["from_turn"], row["to_turn"])
        finding = partial(subject.finding, turns=here, ids=[row["summary_id"]])
        if row["stored"] is False:
            expected = "the headline and text of its hash"
            found.append(finding("node_hash", expected, "others"))
        if disorder := disorder_of(row, subject.publication):
            found.append(finding("node_order", *disorder))
        if row["state"] == "current" and await self._is_other_input(row, children):
            expected = f"made of level {row['level'] - 1} nodes" if row["level"] else "of its turns"
            found.append(finding("node_input", expected, "of something else"))
        return found

    async def _is_other_input(self, row: Any, children: Children) -> bool:
        """False, too, where nobody can know; that is counted."""
        verdict = children.verdict(row) if row["level"] else await self._verdict_of_leaf(row)
        self.unverifiable += verdict is None
        return verdict is False

    async def _verdict_of_leaf(self, row: Any) -> bool | None:
        if row["turns"] != row["to_turn"] - row["from_turn"] + 1:
            return None  # told of as turns that are missing
        if row["made_of"] == row["input_hash"]:
            return True
        if not row["told"]:
            return False
        made_of = await told_hash(self._look, row["recipe"], row["from_turn"], row["to_turn"])
        return True if made_of == row["input_hash"] else None


def disorder_of(row: Any, newest: int) -> tuple[str, str] | None:
    """What is wrong with the publications that a node or checkpoint names: expected and found."""
    state, published, replaced = row["state"], row["published_in"], row["replaced_in"]
    if state == "current" and (published is None or replaced is not None):
        return "a publication, and none that replaced it", f"{published} and {replaced}"
    if state == "superseded" and replaced is None:
        return "a publication that replaced it", "none"
    if max(published or 0, replaced or 0) > newest:
        return f"publications up to {newest}", f"{published} and {replaced}"
    if published is not None and replaced is not None and replaced < published:
        return "replaced after it was published", f"published {published}, replaced {replaced}"
    return None


def _is_merged(row: Any) -> bool:
    return row["level"] > 0 and row["state"] == "current"


def _misplaced(subject: Subject, row: Any) -> Finding:
    if row["from_turn"] > row["before"] + 1:
        missing = (row["before"] + 1, row["from_turn"] - 1)
        return subject.finding("node_cover", "leaves of these turns", "none", turns=missing)
    return subject.finding(
        "node_overlap",
        f"one level {row['level']} node",
        "several",
        turns=(row["from_turn"], min(row["to_turn"], row["before"])),
        ids=[row["earlier_id"], row["summary_id"]],
    )
