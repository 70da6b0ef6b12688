"""One branch as it stands."""

from starlette.requests import Request
from starlette.responses import Response

from durable_context.inspector.pages import branch_of, page


async def branch(request: Request) -> Response:
    found = await branch_of(request)
    state = await found.inspect()
    return page(request, "branch.html", title=found.branch_id, branch=found, state=state)
