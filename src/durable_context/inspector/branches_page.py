"""All branches, by how far compaction is behind."""

from starlette.requests import Request
from starlette.responses import Response

from durable_context.inspector.pages import inspector, page


async def branches(request: Request) -> Response:
    status = await inspector(request).client.status()
    return page(request, "branches.html", title="Branches", status_page=status)
