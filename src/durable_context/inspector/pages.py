"""What every page stands on: the client it reads by, its branch, and its template."""

from typing import Any, Final, NamedTuple, cast

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from durable_context import Branch, ContextClient
from durable_context.errors import InvalidArgument
from durable_context.inspector import formats
from durable_context.inspector.links import link

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


class Inspector(NamedTuple):
    """`temporal_ui` is the address of Temporal's UI, without a slash at its end, None where there
    is none; `namespace` that of the runs it shows. Without `allow_changes` all is read-only.
    """

    client: ContextClient
    temporal_ui: str | None = None
    namespace: str = "default"
    allow_changes: bool = False


def inspector(request: Request) -> Inspector:
    return cast("Inspector", request.app.state.inspector)


async def branch_of(request: Request) -> Branch:
    """The branch that the address names. Raises InvalidArgument, InvalidId, UnknownBranch."""
    asked = request.query_params
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


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A whole page, or a part of one: what the template says. Values of users are escaped."""
    text = _TEMPLATES.get_template(template).render(
        request=request, inspector=inspector(request), **values
    )
    return HTMLResponse(text, status_code=status)
