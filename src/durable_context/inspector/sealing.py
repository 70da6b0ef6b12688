"""What every answer has, whatever it is: headers that keep a page from loading, running or being
framed by anything else, and of a failure nothing but its kind and place.
"""

import logging
import traceback
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
_HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: with it browsers send forms of our own pages with the origin "null".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Sealed:
    """The outermost middleware. A page's own header wins: it may only be stricter."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _seal(scope, MutableHeaders(scope=message))
            await send(message)

        try:
            await self._app(scope, receive, sealed)
        except Exception as error:  # what is logged by others tells what pages show
            # The address's query holds ids.
            log_failure(f"{scope['method']} of {scope['path']}", error)
            if not begun:
                await PlainTextResponse("Internal error", 500)(scope, receive, sealed)


def _seal(scope: Scope, headers: MutableHeaders) -> None:
    if scope["path"].startswith("/static/"):
        headers.setdefault("cache-control", "no-cache")
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)


def log_failure(what: str, error: Exception) -> None:
    """Without the error's message, which may hold ids and content."""
    where = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s failed: %s\n%s", what, type(error).__name__, where)
