"""Nodes of the summary tree: each opens to its text and to what it was made of, a leaf to turns."""

from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from durable_context import Branch, Summary
from durable_context.errors import InvalidArgument
from durable_context.inspector.pages import branch_of, page, whole_number
from durable_context.looks.outlines import TurnOutline

TURNS: Final = 50
"""Of a node, at once."""


async def node(request: Request) -> Response:
    """A page; what htmx asks for is the part that stands inside the opened node, or with `from` the
    node's next turns.
    """
    found = await branch_of(request)
    shown = await found.summary(_summary_id(request))
    below = await found.summaries_below(shown) if shown.level else ()
    first = whole_number(request, "from", shown.from_turn, shown.from_turn, shown.to_turn)
    return page(
        request,
        _template(request),
        title=f"level {shown.level}, turns {shown.from_turn}–{shown.to_turn}",
        branch=found,
        node=shown,
        below=below,
        above=() if _is_part(request) else await found.summaries_above(shown),
        turns=() if below else await _turns(found, shown, first),
        stood_here=len(await found.revisions(shown)),
    )


async def revisions(request: Request) -> Response:
    """All that stood at the place of a node."""
    found = await branch_of(request)
    shown = await found.summary(_summary_id(request))
    return page(
        request,
        "_revisions.html" if _is_part(request) else "revisions.html",
        title=f"revisions of level {shown.level}, turns {shown.from_turn}–{shown.to_turn}",
        branch=found,
        node=shown,
        revisions=await found.revisions(shown),
    )


async def _turns(found: Branch, shown: Summary, first: int) -> tuple[TurnOutline, ...]:
    return await found.turn_outlines(first, min(shown.to_turn, first + TURNS - 1))


def _template(request: Request) -> str:
    if not _is_part(request):
        return "node.html"
    return "_node_turns.html" if "from" in request.query_params else "_node.html"


def _is_part(request: Request) -> bool:
    return request.headers.get("HX-Request") == "true"


def _summary_id(request: Request) -> UUID:
    text = request.query_params.get("id", "")
    try:
        return UUID(text)
    except ValueError:
        raise InvalidArgument(f"id={text!r:.60}; it must be the id of a summary") from None
