"""What every page stands on: the client it reads by, its branch, and its template."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from durable_context import Branch, ContextClient
from durable_context.errors import InvalidArgument
from durable_context.inspector import formats
from durable_context.inspector.links import link, local

if TYPE_CHECKING:
    from durable_context.inspector.notes import Note

MAIN: Final = "main"
_TEMPLATES: Final = Environment(
    loader=PackageLoader("durable_context.inspector"),
    autoescape=select_autoescape(default=True, default_for_string=True),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(formats.FILTERS)
_TEMPLATES.globals["link"] = link  # pyright: ignore[reportArgumentType]
_TEMPLATES.globals["local"] = local  # pyright: ignore[reportArgumentType]


class Inspector(NamedTuple):
    """`temporal_ui` is the address of Temporal's UI, without a slash at its end, None where there
    is none; `namespace` that of the runs it shows. Without `allow_changes` all is read-only.
    """

    client: ContextClient
    temporal_ui: str | None = None
    namespace: str = "default"
    allow_changes: bool = False
    tenant: str = "default"


def inspector(request: Request) -> Inspector:
    return cast("Inspector", request.app.state.inspector)


async def branch_of(request: Request) -> Branch:
    """The branch that the address names. Raises InvalidArgument, InvalidId, UnknownBranch."""
    return await named_branch(request, request.query_params)


async def named_branch(request: Request, asked: Mapping[str, str]) -> Branch:
    """The branch that an address or a form names. Raises as `branch_of` does."""
    conversation = asked.get("conversation")
    if not conversation:
        raise InvalidArgument("the address has no conversation: ?conversation=ID&branch=main")
    return await inspector(request).client.find_branch(conversation, asked.get("branch", MAIN))


def whole_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A number of the address. Raises InvalidArgument."""
    text = request.query_params.get(name)
    if not text:
        return default
    if not text.isdecimal() or len(text) > 10 or not least <= int(text) <= most:
        raise InvalidArgument(f"{name}={text!r:.40}; it must be from {least:,} to {most:,}")
    return int(text)


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> HTMLResponse:
    """A whole page, or a part of one: what the template says. Values of users are escaped.

    Where htmx asked for a part, an error is a line in its place.
    """
    if status >= 400 and "hx-request" in request.headers:
        template = "_not_shown.html"
    text = _TEMPLATES.get_template(template).render(
        request=request,
        inspector=inspector(request),
        form_key=request.app.state.access.form_key,
        here=_here(request),
        note=_note(request),
        is_known=getattr(request.state, "is_known", False),
        **values,
    )
    # A lone surrogate that a template missed is no reason to fail.
    body = text.encode(errors="backslashreplace")
    return HTMLResponse(body, status_code=status, headers=headers)


def _here(request: Request) -> str:
    """The address of the page, also where only a part of it is asked for."""
    asked = request.headers.get("hx-current-url") if "hx-request" in request.headers else None
    return local(asked or str(request.url))


def _note(request: Request) -> "Note | None":
    note_id = request.query_params.get("note")
    return request.app.state.notes.get(note_id) if note_id else None
