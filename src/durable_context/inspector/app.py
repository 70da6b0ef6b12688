"""The application: which page is where, and what becomes of errors."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from durable_context.errors import (
    ArtifactNotFound,
    CheckpointNotFound,
    DatabaseUnavailable,
    DurableContextError,
    InvalidArgument,
    InvalidId,
    InvalidTurn,
    SummaryNotFound,
    UnknownBranch,
)
from durable_context.inspector import (
    artifacts_page,
    branch_page,
    branches_page,
    compactions_page,
    conversation_page,
    diff_page,
    events_page,
    prompt_page,
    tree_page,
    turns_page,
)
from durable_context.inspector.changes import change_routes
from durable_context.inspector.notes import Notes
from durable_context.inspector.pages import Inspector, page
from durable_context.inspector.sealing import Sealed
from durable_context.inspector.security import Access, FormRefused, Guard, access_for

_STATIC: Final = Path(str(files("durable_context.inspector") / "static"))
_STATUS: Final[tuple[tuple[type[DurableContextError], int], ...]] = (
    (FormRefused, 403),
    (UnknownBranch, 404),
    (ArtifactNotFound, 404),
    (CheckpointNotFound, 404),
    (SummaryNotFound, 404),
    (InvalidArgument, 400),
    (InvalidId, 400),
    (InvalidTurn, 400),
    (DatabaseUnavailable, 503),
)


def make_app(inspected: Inspector, access: Access | None = None) -> ASGIApp:
    """`access`: by default that of a server on loopback without a token."""
    access = access or access_for("127.0.0.1", None)
    app = Starlette(
        routes=[
            Route("/", branches_page.branches),
            Route("/conversation", conversation_page.conversation),
            Route("/branch/progress", branches_page.progress),
            Route("/branch", branch_page.branch),
            Route("/branch/node", tree_page.node),
            Route("/branch/node/revisions", tree_page.revisions),
            Route("/branch/turns", turns_page.turns),
            Route("/branch/turn", turns_page.turn),
            Route("/branch/turn/message", turns_page.message),
            Route("/branch/prompt", prompt_page.prompt),
            Route("/branch/prompt/message", prompt_page.prompt_message),
            Route("/branch/prompt/request.json", prompt_page.prompt_request),
            Route("/branch/artifacts", artifacts_page.artifacts),
            Route("/branch/artifact", artifacts_page.artifact),
            Route("/branch/artifact/content", artifacts_page.artifact_content),
            Route("/branch/diff", diff_page.diff),
            Route("/branch/compactions", compactions_page.branch_compactions),
            Route("/compactions", compactions_page.compactions),
            Route("/branch/events", events_page.events),
            *(change_routes() if inspected.allow_changes else ()),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Guard, access)],
        exception_handlers={DurableContextError: _failed, HTTPException: _not_served},
        lifespan=_closing,
    )
    app.state.inspector = inspected
    app.state.access = access
    app.state.notes = Notes()
    return Sealed(app)


@asynccontextmanager
async def _closing(app: Starlette) -> AsyncGenerator[None]:
    yield
    await cast("Notes", app.state.notes).close()


async def _failed(request: Request, error: Exception) -> Response:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return page(request, "error.html", status=status, title="Not shown", message=str(error))


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return page(
        request,
        "error.html",
        status=error.status_code,
        headers=error.headers,
        title="Not here",
        message=f"{error.detail}: {request.method} {request.url.path}",
    )
