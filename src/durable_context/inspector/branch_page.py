"""One branch as it stands: figures, the plot, the frontier, the newest of what happened."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from durable_context.contracts import compaction_workflow_id
from durable_context.inspector.links import link, run_link
from durable_context.inspector.pages import branch_of, inspector, page
from durable_context.inspector.plot import BUCKETS, plot_of

NEWEST: Final = 10
"""Checkpoints and compactions that are shown."""
_LINKS: Final = 120_000
"""Characters of all links of a plot: ids may be long, and pages are not."""


async def branch(request: Request) -> Response:
    found = await branch_of(request)
    inspected = inspector(request)
    plot = plot_of(await found.sizes(BUCKETS))
    workflow_id = compaction_workflow_id(found.branch_uuid)
    address = link("/branch/turns", conversation=found.conversation_id, branch=found.branch_id)
    drawn = len(plot.bars) + len(plot.marks) if plot else 0
    return page(
        request,
        "branch.html",
        title=found.branch_id,
        branch=found,
        standing=await found.standing(),
        plot=plot,
        is_linked=len(address) * drawn < _LINKS,
        checkpoints=await found.newest_checkpoints(NEWEST),
        compactions=await found.compactions(NEWEST),
        pins=await found.pins(),
        workflow_id=workflow_id,
        workflow_link=run_link(inspected.temporal_ui, inspected.namespace, workflow_id, None),
        run_link=run_link,
    )
