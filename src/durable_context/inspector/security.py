"""Who may look, and who may change: hosts, tokens, and where a form came from.

On loopback whoever reaches the port may look, but only by a name of this machine, so that no page
elsewhere gets in by rebinding its own name. Everywhere else, and wherever there is a token, it must
be shown. What changes something must come from a page of ours, with its form key.
"""

import hmac
import re
import secrets
from ipaddress import ip_address
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from durable_context.errors import InvalidArgument
from durable_context.inspector.pages import inspector, page

TOKEN_VARIABLE: Final = "DURABLE_CONTEXT_UI_TOKEN"
SHORTEST_TOKEN: Final = 16
LOOKING: Final = ("GET", "HEAD", "OPTIONS")
_LOCAL_HOST: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class FormRefused(InvalidArgument):
    """The form is out of date, and nothing was changed: load its page again."""


class Access(NamedTuple):
    """`token`: None where none is asked for, on loopback only. `form_key` stands in every form that
    changes something; it ends with the process.
    """

    token: str | None
    is_local: bool
    form_key: str


def access_for(host: str, token: str | None) -> Access:
    """For a server bound to `host`; a token is made up where one is needed and none is given.

    Raises InvalidArgument.
    """
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii()):
        raise InvalidArgument(
            f"{TOKEN_VARIABLE} has {len(token)} characters; it must have at least"
            f" {SHORTEST_TOKEN}, all of them ASCII"
        )
    is_local = is_loopback(host)
    if token is None and not is_local:
        token = secrets.token_urlsafe(24)
    return Access(token, is_local, secrets.token_urlsafe(24))


def is_loopback(host: str) -> bool:
    """A name that is not `localhost` is taken for one that others reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Middleware in front of all pages. /static is open: it is the same for everybody."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = self._refused(Request(scope))
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refused(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if self._access.is_local and not _LOCAL_HOST.fullmatch(host):
            return _forbidden(
                request,
                f"This server is reached as localhost, 127.0.0.1 or [::1], not as {host!r:.80}.",
            )
        if not request.url.path.startswith("/static/"):
            refused = self._unknown(request)
            if refused is not None:
                return refused
            request.state.is_known = True
        return None if request.method in LOOKING else _unwanted(request)

    def _unknown(self, request: Request) -> Response | None:
        """What whoever has not shown the token gets, or who shows it in the address."""
        token = self._access.token
        if token is None:
            return None
        shown = request.query_params.get("token", "")
        if request.method in ("GET", "HEAD") and _same(shown, token):
            return _welcome(request, token)
        if _is_known(request, token):
            return None
        return page(
            request,
            "refused.html",
            status=401,
            title="A token is needed",
            headers={"WWW-Authenticate": "Bearer"},
            variable=TOKEN_VARIABLE,
        )


def check_form_key(request: Request, form: dict[str, str]) -> None:
    """Raises FormRefused where the form is not one of this process."""
    access = cast("Access", request.app.state.access)
    if not _same(form.get("key", ""), access.form_key):
        raise FormRefused


def _unwanted(request: Request) -> Response | None:
    if not inspector(request).allow_changes:
        return _forbidden(
            request, "This page is read-only. `durable-context ui --allow-changes` lets it change."
        )
    if not _is_of_us(request):
        return _forbidden(request, "This came from another site, and nothing was changed.")
    return None


def _is_of_us(request: Request) -> bool:
    """By what browsers say. Without TLS they say where a request comes from only by its origin."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site is not None
    try:
        return urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    except ValueError:
        return False


def _is_known(request: HTTPConnection, token: str) -> bool:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _same(shown.strip(), token):
        return True
    name, value = _cookie(token)
    return _same(request.cookies.get(name, ""), value)


def _welcome(request: Request, token: str) -> Response:
    """Back to the same address without the token, which stays out of the browser's history."""
    rest = [
        (name, value)
        for name, value in parse_qsl(request.url.query, keep_blank_values=True)
        if name != "token"
    ]
    # One slash: what follows two of them is taken for another host.
    path = "/" + quote(request.url.path.lstrip("/\\"), safe="/%")
    answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), status_code=303)
    name, value = _cookie(token)
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict", secure=secure)
    return answer


def _cookie(token: str) -> tuple[str, str]:
    """Its name, by which servers on other ports of the host have others, and its value."""
    digest = hmac.digest(token.encode(), b"durable-context ui", "sha256").hex()
    return f"durable_context_ui_{digest[:8]}", digest[8:]


def _same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(errors="replace"), b.encode())


def _forbidden(request: Request, message: str) -> Response:
    return page(request, "error.html", status=403, title="Refused", message=message)
