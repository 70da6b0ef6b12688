"""Markers that stand for offloaded content. A text is a marker only where its handle is known: what
merely looks like one is text like any other.
"""

import hashlib
import re
from collections.abc import Container
from typing import Final

from durable_context.ids import OFFLOADED_HANDLE

HANDLE_DIGITS: Final = 12
_MARKER: Final = re.compile(
    rf"\[\[OFFLOADED: handle=(?P<handle>{OFFLOADED_HANDLE})\]\]"
    r"|\[\[OFFLOAD: handle=(?P<older>(?:off_)?[0-9a-f]{12})\]\]"
)
_HANDLE: Final = re.compile(r"(?:off_)?[0-9a-f]{12}")


def handle_of(content: str, scope: str) -> str:
    """The handle of a content in a scope, such as a branch's id or a task's.

    The same content has the same handle there, so that a prompt made twice has the same bytes, and
    another one elsewhere.
    """
    hashed = hashlib.sha256(f"{scope}\0{content}".encode(errors="surrogatepass"))
    return f"off_{hashed.hexdigest()[:HANDLE_DIGITS]}"


def is_handle(text: object) -> bool:
    return isinstance(text, str) and _HANDLE.fullmatch(text) is not None


def marker(handle: str) -> str:
    return f"[[OFFLOADED: handle={handle}]]"


def marked(text: object, known: Container[str]) -> str | None:
    """The known handle that a whole text is the marker of, in this form or the older one."""
    found = _MARKER.fullmatch(text.strip()) if isinstance(text, str) else None
    handle = (found["handle"] or found["older"]) if found else None
    return handle if handle is not None and handle in known else None


def ends_in_marker(text: str, known: Container[str]) -> str | None:
    """The known handle of the marker that a text ends in: a preview with its reference."""
    last = text.rstrip().rfind("[[OFFLOAD")
    return marked(text[last:], known) if last >= 0 else None
