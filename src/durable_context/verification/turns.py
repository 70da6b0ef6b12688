"""Turns: numbered without holes, counted up, with the content that was recorded."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from durable_context.verification.findings import Finding
from durable_context.verification.subject import Look, Subject

PAGE = 100
"""Turns that one statement looks at: their contents are hashed by the database, and stay there."""
LAST = 2**31 - 1

_BASE = """
select t.turn_no, t.head_tokens, t.open_run_turn from durable_context.visible_turns t
where t.tenant = $1 and t.seen_by = $2 and t.turn_no = $3
"""

# Rows of before there was a stored hash: whether the messages have the hash of what was recorded,
# which is something else where artifacts were taken out of them.
# Bounded by numbers, not by a limit: or the planner, which knows nothing of a branch, sorts the
# rest of it for each page.
_PAGE = """
with artifacts as materialized (
    select a.turn_no, count(*) as artifacts, bool_or(a.source in ('message', 'part')) as views
    from durable_context.artifacts a
    where a.tenant = $1 and a.branch_uuid = $2 and a.turn_no between $3 and $4
        and a.source <> 'put'
    group by a.turn_no
)
select t.turn_no, t.stored_tokens, t.head_tokens, t.open_run_turn, t.artifact_count,
    t.token_count, (select coalesce(sum(n), 0) from unnest(t.message_tokens) n) as counted,
    coalesce(a.artifacts, 0) as artifacts, coalesce(a.views, false) as views,
    t.stored_hash = durable_context.hash_of(
        encode(t.content_hash, 'hex'), t.messages::text, t.views::text, t.digest, t.ledger::text
    ) as stored,
    t.stored_hash is null and t.content_hash = sha256(convert_to(
        t.outcome || '|' || case when t.continues then 'True' else 'False' end || '|'
        || t.messages::text, 'UTF8'
    )) as content
from durable_context.turns t left join artifacts a on a.turn_no = t.turn_no
where t.tenant = $1 and t.branch_uuid = $2 and t.turn_no between $3 and $4
order by t.turn_no
"""
_NEXT = """
select min(t.turn_no) as turn_no from durable_context.turns t
where t.tenant = $1 and t.branch_uuid = $2 and t.turn_no > $3
"""

_PARTS = """
select encode(n.hash, 'hex') as hash, n.from_turn, n.to_turn
from (
    select t.prompt_parts_hash as hash, min(t.turn_no) as from_turn, max(t.turn_no) as to_turn
    from durable_context.turns t
    where t.tenant = $1 and t.branch_uuid = $2 and t.turn_no between $3 and $4
        and t.prompt_parts_hash is not null
    group by t.prompt_parts_hash
) n
where not exists (
    select from durable_context.prompt_parts p
    where p.tenant = $1 and p.hash = n.hash and p.hash = sha256(convert_to(p.parts::text, 'UTF8'))
)
order by n.from_turn
"""


class Counted(NamedTuple):
    """The turn before the next one: 0 before the first."""

    turn_no: int
    head_tokens: int
    open_run_turn: int | None


class TurnsOf:
    """The turns that a branch recorded itself. `turns` and `unverifiable` count while it looks."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.turns = 0
        self.unverifiable = 0

    async def findings(self) -> AsyncIterator[Finding]:
        subject = self._look.subject
        before = await self._base()
        last = before.turn_no
        while (first := (await self._look.row(_NEXT, last))["turn_no"]) is not None:
            last = min(first + PAGE - 1, LAST)
            rows = await self._look.rows(_PAGE, first, last)
            for row in rows:
                for finding in self._of_turn(row, before):
                    yield finding
                before = Counted(row["turn_no"], row["head_tokens"], row["open_run_turn"])
            for row in await self._look.rows(_PARTS, first, last):
                yield subject.finding(
                    "prompt_parts_hash",
                    "prompt parts with their hash",
                    "others, or none",
                    turns=(row["from_turn"], row["to_turn"]),
                    ids=[row["hash"]],
                )
            self.turns += len(rows)
        for finding in _of_head(subject, before):
            yield finding

    async def _base(self) -> Counted:
        fork_turn = self._look.subject.fork_turn or 0
        row = await self._look.row(_BASE, fork_turn) if fork_turn else None
        return Counted(*row) if row else Counted(fork_turn, 0, None)

    def _of_turn(self, row: Any, before: Counted) -> list[Finding]:
        subject, number = self._look.subject, row["turn_no"]
        here = (number, number)
        found: list[Finding] = []
        if number != before.turn_no + 1:
            missing = (before.turn_no + 1, number - 1)
            found.append(subject.finding("turn_numbers", "turns", "none", turns=missing))
        elif row["head_tokens"] != before.head_tokens + row["stored_tokens"]:
            total = before.head_tokens + row["stored_tokens"]
            found.append(_tokens(subject, "head", total, row["head_tokens"], here))
        if row["counted"] != row["token_count"]:
            found.append(_tokens(subject, "message", row["counted"], row["token_count"], here))
        if row["artifacts"] != row["artifact_count"]:
            expected = f"{row['artifact_count']} artifacts"
            found.append(subject.finding("turn_artifacts", expected, row["artifacts"], turns=here))
        if not self._is_as_recorded(row):
            expected = "what its hash was made of"
            found.append(subject.finding("turn_hash", expected, "something else", turns=here))
        return found

    def _is_as_recorded(self, row: Any) -> bool:
        if row["stored"] is not None:
            return row["stored"]
        self.unverifiable += row["views"] and not row["content"]
        return row["content"] or row["views"]


def _tokens(
    subject: Subject, which: str, expected: int, found: int, turns: tuple[int, int]
) -> Finding:
    return subject.finding(
        "turn_tokens", f"{which} tokens {expected}", f"{which} tokens {found}", turns=turns
    )


def _of_head(subject: Subject, last: Counted) -> list[Finding]:
    figures = {
        "head_turn": (last.turn_no, subject.head_turn),
        "head_tokens": (last.head_tokens, subject.head_tokens),
        "open_run_turn": (last.open_run_turn, subject.open_run_turn),
    }
    return [
        subject.finding("branch_head", f"{name} {expected}", f"{name} {found}")
        for name, (expected, found) in figures.items()
        if expected != found
    ]
