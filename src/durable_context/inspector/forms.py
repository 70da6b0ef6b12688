"""What a form of ours sent, and where it goes back to."""

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse

from durable_context.errors import InvalidArgument
from durable_context.inspector.links import local
from durable_context.inspector.notes import Note
from durable_context.inspector.security import check_form_key

LARGEST_FORM = 64 * 1024


async def sent_form(request: Request) -> dict[str, str]:
    """Its fields, those left empty too. Raises InvalidArgument, FormRefused."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            raise InvalidArgument(f"the form has more than {LARGEST_FORM:,} bytes")
    form = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    check_form_key(request, form)
    return form


def text_field(form: dict[str, str], name: str) -> str | None:
    """None where it was left empty. Line ends are those that browsers send otherwise."""
    return form.get(name, "").replace("\r\n", "\n").strip() or None


def number_field(form: dict[str, str], name: str) -> int | None:
    """None where it was left empty. Raises InvalidArgument."""
    text = form.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 10:
        raise InvalidArgument(f"{name}={text!r:.40}; it must be a whole number")
    return int(text)


def back_with(form: dict[str, str], note: Note) -> RedirectResponse:
    """To the page that the form stood on, which shows the note."""
    return RedirectResponse(local(form.get("back", "/"), note=note.note_id), status_code=303)
