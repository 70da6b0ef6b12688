"""Artifacts as text: lists, lines, and lines that hold a text."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from durable_context.models import Artifact
from durable_context.text import clean
from durable_context.tools.answering.bound import DATA, Bound

_AROUND: Final = 160
"""Characters shown before and after a match in a long line."""
_LONG: Final = 4 * _AROUND
_HEADLINE_TOKENS: Final = 40


class Part(NamedTuple):
    """Lines of an artifact: `length` of them from line `start`, without the first `offset`
    characters.
    """

    start: int = 1
    length: int | None = None
    offset: int = 0


class _Match(NamedTuple):
    """`position` is in characters where the line is long, else 0."""

    line_no: int
    position: int


def artifact_lines(artifact: Artifact, text: str, part: Part, bound: Bound) -> str:
    """As many of the lines as fit; of a line that is too long alone as many characters."""
    lines = clean(text).split("\n")
    head = about(artifact, bound)
    problem = _out_of_range(lines, part)
    if problem:
        return f"{head}\n{problem}"
    end = len(lines) if part.length is None else part.start - 1 + part.length
    first = lines[part.start - 1]
    wanted = [first[part.offset :], *lines[part.start : end]]
    page = _page(head, wanted, part, len(lines))
    if bound.holds(page(1)):
        return bound.longest(page, bound.worth_trying(wanted))[1]
    piece = _piece(head, first, part, len(lines))
    return bound.longest(piece, min(len(wanted[0]), bound.characters))[1]


def _out_of_range(lines: Sequence[str], part: Part) -> str | None:
    if part.start > len(lines):
        return f"There is no line {part.start}: it has {len(lines)} lines."
    size = len(lines[part.start - 1])
    if part.offset and part.offset >= size:
        return f"There is no character {part.offset + 1} in line {part.start}: it has {size}."
    return None


def _page(head: str, wanted: Sequence[str], part: Part, total: int) -> Callable[[int], str]:
    skipped = f", the first from character {part.offset + 1}" if part.offset else ""

    def page(count: int) -> str:
        last = part.start + count - 1
        on = f"; go on with start={last + 1}" if last < total else ""
        note = f"[{_lines(part.start, last)} of {total}{skipped}{on}]"
        return "\n".join([head, note, *wanted[:count]])

    return page


def _piece(head: str, line: str, part: Part, total: int) -> Callable[[int], str]:
    def piece(count: int) -> str:
        last = part.offset + count
        note = (
            f"[line {part.start} of {total}, characters {part.offset + 1}-{last} of {len(line)};"
            f" go on with start={part.start}, offset={last}]"
        )
        return "\n".join([head, note, line[part.offset : last]])

    return piece


def artifact_matches(artifact: Artifact, text: str, grep: str, part: Part, bound: Bound) -> str:
    """The lines that hold `grep`, in whatever case; of long ones what stands around it."""
    lines = clean(text).split("\n")
    head = about(artifact, bound)
    last = len(lines) if part.length is None else min(len(lines), part.start - 1 + part.length)
    if part.start > last:
        return f"{head}\nThere is no line {part.start}: it has {len(lines)} lines."
    found = list(_matches(lines, clean(grep), part, last))
    asked = f'"{bound.label(grep)}" in {_lines(part.start, last)} of {len(lines)}'
    if not found:
        return (
            f"{head}\nNo match for {asked}. It is looked for as it is, in upper and lower case, and"
            " is no pattern. Try a part of it, or read lines with start and length."
        )

    def page(count: int) -> str:
        on = _go_on(found[count], count) if count < len(found) else ""
        note = f"[{len(found)} matches for {asked}{on}]"
        return "\n".join([head, note, *(_shown(lines, match, grep) for match in found[:count])])

    return bound.longest(page, min(len(found), bound.max_tokens))[1]


def _go_on(match: _Match, count: int) -> str:
    offset = f", offset={match.position}" if match.position else ""
    return f", here the first {count}; go on with start={match.line_no}{offset} and the same grep"


def _matches(lines: Sequence[str], grep: str, part: Part, last: int) -> Iterator[_Match]:
    for line_no in range(part.start, last + 1):
        line = lines[line_no - 1]
        skipped = part.offset if line_no == part.start else 0
        if len(line) <= _LONG:
            if next(_positions(line, grep, skipped), None) is not None:
                yield _Match(line_no, 0)
        else:
            for position in _positions(line, grep, skipped):
                yield _Match(line_no, position)


def _positions(line: str, grep: str, start: int) -> Iterator[int]:
    """Where it occurs, not twice within what is shown of one match."""
    lowered, wanted = line.lower(), grep.lower()
    if len(lowered) != len(line):  # a few letters have lower-case forms of two characters
        found = re.finditer(re.escape(grep), line[start:], re.IGNORECASE)
        yield from (start + match.start() for match in found)
        return
    position = lowered.find(wanted, start)
    while position >= 0:
        yield position
        position = lowered.find(wanted, position + len(wanted) + _AROUND)


def _shown(lines: Sequence[str], match: _Match, grep: str) -> str:
    line = lines[match.line_no - 1]
    if len(line) <= _LONG:
        return f"{match.line_no}: {line}"
    begin = max(match.position - _AROUND, 0)
    end = match.position + len(grep) + _AROUND
    return f"{match.line_no}, from character {begin + 1}: {line[begin:end]}"


def not_text(artifact: Artifact, bound: Bound) -> str:
    """What is said of an artifact that cannot be shown."""
    summary = artifact.summary
    said = f"\nIts summary: {bound.label(summary, bound.max_tokens // 2)}" if summary else ""
    return bound.cut(f"{about(artifact, bound)}\nIt is not text and cannot be shown as such.{said}")


def artifact_list(artifacts: Sequence[Artifact], start: int, bound: Bound) -> str:
    """One line each, from number `start`."""
    total = len(artifacts)
    if start > total:
        return f"There is no artifact number {start}: there are {total}."
    lines = [_listed(artifact, bound) for artifact in artifacts[start - 1 :][: bound.max_tokens]]

    def page(count: int) -> str:
        last = start + count - 1
        on = f"; go on with start={last + 1}" if last < total else ""
        head = f"[artifacts {start}-{last} of {total}, newest first{on}. {DATA}]"
        return "\n".join([head, *lines[:count]])

    return bound.longest(page, bound.worth_trying(lines))[1]


def _listed(artifact: Artifact, bound: Bound) -> str:
    headline = bound.label(artifact.headline, _HEADLINE_TOKENS) if artifact.headline else ""
    return f"- {_described(artifact, bound)}" + (f": {headline}" if headline else "")


def about(artifact: Artifact, bound: Bound) -> str:
    """The line that says what an artifact is."""
    return f"[artifact {_described(artifact, bound)}. {DATA}]"


def _described(artifact: Artifact, bound: Bound) -> str:
    name = f' "{bound.label(artifact.name)}"' if artifact.name else ""
    version = f" version {artifact.version}" if artifact.version else ""
    lines = f", {artifact.line_count} lines" if artifact.line_count is not None else ""
    pixels = f", {artifact.width}x{artifact.height} pixels" if artifact.width else ""
    kind = bound.label(artifact.media_type)
    where = f"turn {artifact.turn_no}"
    return (
        f"{artifact.handle}{name}{version}, {kind}, {artifact.size} bytes{lines}{pixels}, {where}"
    )


def _lines(first: int, last: int) -> str:
    return f"line {first}" if first == last else f"lines {first}-{last}"
