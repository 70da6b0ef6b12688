"""What was compacted, of one branch or of all: newest first, what it cost, and what it saves."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast, get_args
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from durable_context import Branch, ContextClient
from durable_context.contracts import Reason, TreeReason
from durable_context.control.history import CompactionStatus, CompactionTotals
from durable_context.errors import InvalidArgument
from durable_context.inspector.links import run_link
from durable_context.inspector.pages import branch_of, inspector, page
from durable_context.models import Compaction

PAGE: Final = 50
CALLS: Final = 5
"""Calls of a model that are listed of each compaction ..."""
CALLS_OF_ONE: Final = 200
"""... and of the one that a page was asked to begin with, whose error is whole, too."""
STATUSES: Final[tuple[str, ...]] = get_args(CompactionStatus)
REASONS: Final[tuple[str, ...]] = (*get_args(Reason), *get_args(TreeReason))


class _Listed(NamedTuple):
    """A page of compactions. `totals` are of all that the filter lets through; None on later pages
    of a tenant, which may have very many. `next` begins the next page.
    """

    compactions: Sequence[Compaction]
    next: UUID | None
    totals: CompactionTotals | None


async def branch_compactions(request: Request) -> Response:
    branch = await branch_of(request)
    listed = await _listed(request, branch, totals=True)
    return _page(request, "branch_compactions.html", listed, branch=branch)


async def compactions(request: Request) -> Response:
    first = not request.query_params.get("begin")
    listed = await _listed(request, inspector(request).client, totals=first)
    return _page(request, "compactions.html", listed)


async def _listed(request: Request, of: Branch | ContextClient, *, totals: bool) -> _Listed:
    begin = _begin(request)
    chosen = cast("Any", _chosen(request))  # the library says what is allowed
    found = await of.compactions(PAGE + 1, begin=begin, **chosen)
    following = found[PAGE].compaction_id if len(found) > PAGE else None
    total = await of.compaction_totals(**chosen) if totals else None
    return _Listed(found[:PAGE], following, total)


def _page(request: Request, template: str, listed: _Listed, **values: Any) -> Response:
    chosen = _chosen(request)
    return page(
        request,
        template,
        title="Compactions",
        listed=listed,
        only_status=chosen["status"] or "",
        only_reason=chosen["reason"] or "",
        begun=request.query_params.get("begin", ""),
        statuses=STATUSES,
        reasons=REASONS,
        most_calls=CALLS,
        most_calls_of_one=CALLS_OF_ONE,
        run_of=partial(_run, request),
        **values,
    )


def _chosen(request: Request) -> dict[str, str | None]:
    return {name: request.query_params.get(name) or None for name in ("status", "reason")}


def _begin(request: Request) -> UUID | None:
    text = request.query_params.get("begin")
    try:
        return UUID(text) if text else None
    except ValueError:
        raise InvalidArgument(f"begin={text!r:.60}; it must be the id of a compaction") from None


def _run(request: Request, one: Compaction) -> str | None:
    shown = inspector(request)
    return run_link(shown.temporal_ui, shown.namespace, one.workflow_id, one.run_id)
