"""The application: which page is where, and what becomes of errors."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from durable_context.errors import (
    ArtifactNotFound,
    CheckpointNotFound,
    DatabaseUnavailable,
    DurableContextError,
    InvalidArgument,
    InvalidId,
    InvalidTurn,
    UnknownBranch,
)
from durable_context.inspector import branch_page, branches_page
from durable_context.inspector.pages import Inspector, page

_STATIC: Final = Path(str(files("durable_context.inspector") / "static"))
_STATUS: Final[tuple[tuple[type[DurableContextError], int], ...]] = (
    (UnknownBranch, 404),
    (ArtifactNotFound, 404),
    (CheckpointNotFound, 404),
    (InvalidArgument, 400),
    (InvalidId, 400),
    (InvalidTurn, 400),
    (DatabaseUnavailable, 503),
)


def make_app(inspected: Inspector) -> Starlette:
    app = Starlette(
        routes=[
            Route("/", branches_page.branches),
            Route("/branch", branch_page.branch),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        exception_handlers={DurableContextError: _failed},
    )
    app.state.inspector = inspected
    return app


async def _failed(request: Request, error: Exception) -> Response:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return page(request, "error.html", status=status, title="Not shown", message=str(error))
