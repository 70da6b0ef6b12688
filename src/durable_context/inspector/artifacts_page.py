"""What a branch has beside its conversation: a list, and each content by lines, as a picture, or to
be saved. A content is shown as what its bytes are, never as what it says it is.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from durable_context import Artifact, Branch
from durable_context.artifacts.media_tokens import signed_media_type
from durable_context.artifacts.reading import ArtifactContent, is_text
from durable_context.errors import InvalidArgument
from durable_context.inspector.long_text import Piece, piece
from durable_context.inspector.pages import branch_of, page, whole_number

PAGE: Final = 50
VERSIONS: Final = 50
LINES: Final = 200
"""Lines of a text on a page ..."""
CHARACTERS: Final = 40_000
"""... of so many characters together ..."""
LINE: Final = 1_000
"""... each up to so many."""
PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
LARGEST_PICTURE: Final = 16_000_000
_LAST_LINE: Final = 2**31 - 1
GREP_LINES: Final = 200_000
"""Searched at first for what a page shows."""
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


class _Line(NamedTuple):
    """`left` characters of it are not shown."""

    number: int
    text: str
    left: int


class _Text(NamedTuple):
    """Lines of a text. `next` is the line that the next page begins with, where there is one."""

    lines: tuple[_Line, ...]
    line_count: int
    next: int | None


async def artifacts(request: Request) -> Response:
    branch = await branch_of(request)
    begin = request.query_params.get("begin") or None
    found = await branch.newest_artifacts(PAGE + 1, begin=begin)
    return page(
        request,
        "artifacts.html",
        title="Artifacts",
        branch=branch,
        artifacts=found[:PAGE],
        next=found[PAGE].handle if len(found) > PAGE else None,
        is_first=begin is None,
    )


async def artifact(request: Request) -> Response:
    branch = await branch_of(request)
    found = await branch.find_artifact(_handle(request))
    return page(
        request,
        "artifact.html",
        title=found.name or found.handle,
        branch=branch,
        artifact=found,
        versions=await _versions(branch, found),
        most_versions=VERSIONS,
        is_picture=found.media_type in PICTURES and found.size <= LARGEST_PICTURE,
        **(await _text_of(request, branch, found) if is_text(found) else _NO_TEXT),
    )


async def artifact_content(request: Request) -> Response:
    """The content itself: pictures to be shown, all else to be saved."""
    branch = await branch_of(request)
    handle = _handle(request)
    found = await branch.find_artifact(handle)
    read = await branch.load_artifact(handle)
    data = read.content
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    media_type = signed_media_type(data)
    if media_type in PICTURES and not request.query_params.get("save"):
        return Response(data, media_type=media_type, headers=_HEADERS)
    named = f"attachment; filename*=UTF-8''{quote(_file_name(found), safe='')}"
    headers = _HEADERS | {"content-disposition": named}
    return Response(data, media_type="application/octet-stream", headers=headers)


_NO_TEXT: Final[dict[str, Any]] = {"text": None, "piece": None, "start": 1, "grep": ""}


async def _text_of(request: Request, branch: Branch, found: Artifact) -> dict[str, Any]:
    start = whole_number(request, "start", 1, 1, _LAST_LINE)
    grep = request.query_params.get("grep", "")
    asked = {"start": start, "grep": grep}
    if "character" in request.query_params:
        character = whole_number(request, "character", 0, 0, _LAST_LINE)
        read = await branch.load_artifact(found.handle, start=start, length=1)
        return _NO_TEXT | {"piece": _piece(read, character)} | asked
    if grep:
        return _NO_TEXT | {"text": await _found(branch, found, start, grep)} | asked
    read = await branch.load_artifact(found.handle, start=start, length=LINES + 1)
    return _NO_TEXT | {"text": _text(_numbered(read), read.line_count)} | asked


async def _found(branch: Branch, found: Artifact, start: int, grep: str) -> _Text:
    """Looked for in ever larger parts, so that what all lines hold is not gathered from all."""
    length, lines = GREP_LINES, list[tuple[int, str]]()
    while True:
        read = await branch.load_artifact(found.handle, start=start, length=length, grep=grep)
        lines += islice(_numbered(read), LINES + 1)
        count = read.line_count or 0
        if len(lines) > LINES or start + length > count:
            return _text(lines, count)
        start, length = start + length, 4 * length


def _piece(read: ArtifactContent, character: int) -> Piece:
    assert isinstance(read.content, str)
    return piece(read.content, character)


def _text(lines: Iterable[tuple[int, str]], count: int | None) -> _Text:
    """As many lines as a page has room for."""
    shown: list[_Line] = []
    room = CHARACTERS
    for number, line in lines:
        if len(shown) == LINES or room <= 0:
            return _Text(tuple(shown), count or 0, number)
        shown.append(_Line(number, line[:LINE], max(0, len(line) - LINE)))
        room -= len(shown[-1].text) + 1
    return _Text(tuple(shown), count or 0, None)


def _numbered(read: ArtifactContent) -> Iterator[tuple[int, str]]:
    assert isinstance(read.content, str)
    if read.from_line is None or (read.matches == 0):
        return
    for number, line in enumerate(read.content.split("\n"), read.from_line):
        if read.matches is None:
            yield number, line
        else:
            found, _, text = line.partition(": ")
            yield int(found), text


async def _versions(branch: Branch, found: Artifact) -> tuple[Artifact, ...]:
    """Newest first; none of what has no versions."""
    if found.name is None or found.version is None:
        return ()
    return (await branch.artifact_history(found.name))[::-1]


def _handle(request: Request) -> str:
    handle = request.query_params.get("handle")
    if not handle:
        raise InvalidArgument("the address has no handle: &handle=art_...")
    return handle


def _file_name(found: Artifact) -> str:
    """Of its name what a file may be called; browsers leave out paths as well."""
    name = (found.name or found.handle).encode(errors="replace").decode()
    safe = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in name)
    return safe.strip(". ")[:120] or found.handle
