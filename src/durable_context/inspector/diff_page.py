"""What differs between two checkpoints, or between what the model saw at two turns, of one branch
or of two.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from durable_context import Branch
from durable_context.arguments import LARGEST
from durable_context.control.checkpoint_marks import CheckpointMark
from durable_context.control.diffing import Diff
from durable_context.errors import CheckpointNotFound, InvalidArgument
from durable_context.inspector.pages import branch_of, inspector, page, whole_number
from durable_context.models import BranchInfo

Kind = Literal["same", "added", "removed", "fold"]

CHOICES: Final = 100
"""Checkpoints and branches that the form offers; any other can be typed."""
CHANGES: Final = 200
LINES: Final = 600
"""Lines of the texts on a page ..."""
CHARACTERS: Final = 50_000
"""... of so many characters together ..."""
LINE: Final = 1_000
"""... each up to so many."""
SIGNS: Final = {"added": "+", "removed": "−", "changed": "~"}
SOURCES: Final = {
    "stored": "exactly as it was",
    "similar": "the text as near as it can be made again: the branch was compacted otherwise since",
    "prepared": "no manifest tells of it: as a fork made there would prepare it",
}
_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class DiffLine(NamedTuple):
    """`before` and `after` are line numbers, None where the line is not there. Of a fold `left`
    counts the lines that are the same, else the characters of it that are not shown.
    """

    kind: Kind
    before: int | None
    after: int | None
    text: str
    left: int = 0


class _Sides(NamedTuple):
    """What is compared, as the form has it: places of checkpoints, or turns."""

    prompts: bool
    a: str
    b: str
    other: str


async def diff(request: Request) -> Response:
    branch = await branch_of(request)
    siblings = await inspector(request).client.branches(branch.conversation_id)
    marks = await branch.newest_checkpoints(CHOICES)
    sides = _sides(request, branch, siblings, marks)
    found, problem = None, None
    if sides.a and sides.b:
        try:
            found = await _found(request, branch, sides)
        except (CheckpointNotFound, InvalidArgument) as error:
            problem = str(error)[:600]
    return _page(request, branch, siblings, marks, sides, found, problem)


async def _found(request: Request, branch: Branch, sides: _Sides) -> Diff:
    client = inspector(request).client
    other = await client.find_branch(branch.conversation_id, sides.other) if sides.other else None
    a, b = (_place(name, text) for name, text in (("a", sides.a), ("b", sides.b)))
    return await branch.diff(a, b, prompts=sides.prompts, other=other)


def _page(
    request: Request,
    branch: Branch,
    siblings: Sequence[BranchInfo],
    marks: Sequence[CheckpointMark],
    sides: _Sides,
    found: Diff | None,
    problem: str | None,
) -> Response:
    start = whole_number(request, "start", 1, 1, LARGEST) - 1
    lines = tuple(diff_lines(found.lines)) if found else ()
    shown = _page_of(lines, start)
    end = start + len(shown)
    return page(
        request,
        "diff.html",
        status=200 if problem is None else 400,
        title="Diff",
        branch=branch,
        siblings=[one for one in siblings if one.branch_id != branch.branch_id][:CHOICES],
        marks=marks,
        sides=sides,
        diff=found,
        problem=problem,
        totals=_totals(found, lines) if found else (),
        nodes=[c for c in found.changes if c.section != "ledger" or not c.text] if found else (),
        facts=[c for c in found.changes if c.section == "ledger" and c.text] if found else (),
        most_changes=CHANGES,
        signs=SIGNS,
        sources=SOURCES,
        lines=shown,
        line_count=len(lines),
        start=start,
        next=end + 1 if end < len(lines) else None,
    )


def diff_lines(unified: Sequence[str]) -> Iterator[DiffLine]:
    """Of a unified diff, with what is folded between its hunks."""
    before, after = 1, 1
    for line in unified[2:]:
        hunk = _HUNK.fullmatch(line)
        if hunk is not None:
            begins = max(1, int(hunk[1])), max(1, int(hunk[2]))
            if begins[0] > before:
                yield DiffLine("fold", None, None, "", begins[0] - before)
            before, after = begins
            continue
        text, left = line[1 : LINE + 1], max(0, len(line) - 1 - LINE)
        if line[:1] == "-":
            yield DiffLine("removed", before, None, text, left)
            before += 1
        elif line[:1] == "+":
            yield DiffLine("added", None, after, text, left)
            after += 1
        else:
            yield DiffLine("same", before, after, text, left)
            before, after = before + 1, after + 1


def _page_of(lines: Sequence[DiffLine], start: int) -> tuple[DiffLine, ...]:
    room = CHARACTERS
    shown: list[DiffLine] = []
    for line in lines[start : start + LINES]:
        if room <= 0:
            break
        shown.append(line)
        room -= len(line.text) + 1
    return tuple(shown)


def _totals(found: Diff, lines: Sequence[DiffLine]) -> tuple[tuple[str, str], ...]:
    """Of each section what was added, removed and changed, and of the text lines."""
    counts = Counter((change.section, change.change) for change in found.changes)
    counts.update(("lines", line.kind) for line in lines if line.kind in ("added", "removed"))
    sections = dict.fromkeys(section for section, _ in counts)
    return tuple((name, _counted(name, counts)) for name in sections)


def _counted(section: str, counts: Mapping[tuple[str, str], int]) -> str:
    found = ((sign, counts[section, how]) for how, sign in SIGNS.items())
    return " ".join(f"{sign}{count:,}" for sign, count in found if count)


def _sides(
    request: Request,
    branch: Branch,
    siblings: Sequence[BranchInfo],
    marks: Sequence[CheckpointMark],
) -> _Sides:
    """What the address says; else the newest two."""
    query = request.query_params
    prompts = query.get("of") == "prompts"
    other = query.get("other", "")
    a, b = (_asked(query, name, prompts=prompts) for name in ("a", "b"))
    heads = {one.branch_id: one.head_turn for one in siblings}
    if prompts:
        before, after = heads.get(branch.branch_id, 0), heads.get(other or branch.branch_id, 0)
        newest = (before if other else before - 1, after)
        a, b = a or _turn(newest[0]), b or _turn(newest[1])
    else:
        current = [str(mark.checkpoint_id) for mark in marks if mark.state == "current"]
        b = b or (current[0] if current and not other else "")
        a = a or (current[1] if len(current) > 1 else "0" if current else "")
    return _Sides(prompts, a, b, "" if other == branch.branch_id else other)


def _asked(query: Mapping[str, str], name: str, *, prompts: bool) -> str:
    """What was chosen from the list of checkpoints, else what was typed."""
    listed = "" if prompts else query.get(f"listed_{name}", "")
    return (listed or query.get(name, "")).strip()


def _turn(number: int) -> str:
    return str(number) if number > 0 else ""


def _place(name: str, text: str) -> int | UUID:
    if text.isdecimal() and len(text) <= 10:
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(
            f"{name}={text!r:.60}; it must be a turn, or the id of a checkpoint"
        ) from None
