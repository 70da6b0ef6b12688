"""All branches, by how far compaction is behind."""

from typing import Final, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from durable_context.control.status import StatusFilter
from durable_context.inspector.pages import branch_of, inspector, page

SHOWN: Final = 50
WATCHED: Final = 8
"""Running branches of which Temporal is asked how far they are: a browser asks for few at once."""


async def branches(request: Request) -> Response:
    """`only`: one of the filters; `q`: how a conversation's id begins; `after`: the next page."""
    client, asked = inspector(request).client, request.query_params
    beginning = asked.get("q") or None
    only = cast("StatusFilter | None", asked.get("only") or None)
    shown = await client.status(
        beginning=beginning, only=only, limit=SHOWN, after=asked.get("after") or None
    )
    exact = await client.branches(beginning) if beginning else ()
    return page(
        request,
        "branches.html",
        title="Branches",
        shown=shown,
        filters=get_args(StatusFilter),
        only=only,
        q=beginning,
        exact=exact[0].conversation_id if exact else None,
        tenant_pause=await client.paused(),
        watched=[one.branch_uuid for one in shown.branches if one.running][:WATCHED],
    )


async def progress(request: Request) -> Response:
    """How far the compaction that is under way has come: a part of the page."""
    found = await branch_of(request)
    return page(request, "_progress.html", progress=await found.compacting())
