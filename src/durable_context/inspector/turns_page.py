"""Turns: lists of them, one whole, and one message of one."""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from durable_context import Branch
from durable_context.errors import InvalidArgument
from durable_context.inspector.messages import (
    MESSAGES,
    shown_json,
    shown_messages,
    whole_text,
)
from durable_context.inspector.pages import branch_of, page, whole_number
from durable_context.pins import Pin

TURNS: Final = 50
HITS: Final = 20
QUERY: Final = 4_000
CHARACTERS: Final = 40_000
"""Of a message that is shown whole, on one page."""


async def turns(request: Request) -> Response:
    """Fifty turns, by default the newest; with `q` what a search in the branch finds."""
    found = await branch_of(request)
    head = await found.head_turn()
    newest = max(1, head - TURNS + 1)
    first = whole_number(request, "from", newest, 1, max(1, head))
    query = request.query_params.get("q", "").strip()[:QUERY]
    return page(
        request,
        "turns.html",
        title=f"turns of {found.branch_id}",
        branch=found,
        head=head,
        first=first,
        newest=newest,
        page_length=TURNS,
        turns=() if query else await found.turn_outlines(first, first + TURNS - 1),
        pins=pins_by_turn(() if query else await found.pins()),
        query=query,
        hits=await found.search(query, limit=HITS) if query else (),
    )


async def turn(request: Request) -> Response:
    """One turn; what htmx asks for is its messages alone."""
    found = await branch_of(request)
    number = await _number(request, found)
    [stored] = await found.turns(number, number)
    [outline] = await found.turn_outlines(number, number)
    first = whole_number(request, "message", 1, 1, max(1, len(stored.messages)))
    is_part = request.headers.get("HX-Request") == "true"
    return page(
        request,
        "_messages.html" if is_part else "turn.html",
        title=f"turn {number} of {found.branch_id}",
        branch=found,
        turn=stored,
        outline=outline,
        messages=shown_messages(stored.messages, outline.message_tokens, first),
        first=first,
        next_message=first + MESSAGES if first + MESSAGES <= len(stored.messages) else None,
        facts={
            name: shown_json(value)
            for name, value in (("usage", stored.usage), ("metadata", stored.metadata))
            if value is not None
        },
        **({} if is_part else await _around(found, number)),
    )


async def message(request: Request) -> Response:
    """One message of a turn, whole, in pages of its characters."""
    found = await branch_of(request)
    number = await _number(request, found)
    [stored] = await found.turns(number, number)
    place = whole_number(request, "message", 1, 1, len(stored.messages))
    text = whole_text(stored.messages[place - 1])
    start = whole_number(request, "at", 0, 0, max(0, len(text) - 1))
    end = start + CHARACTERS
    return page(
        request,
        "message.html",
        title=f"message {place} of turn {number}",
        branch=found,
        number=number,
        place=place,
        role=stored.messages[place - 1].role,
        length=len(text),
        start=start,
        part=text[start:end],
        before=max(0, start - CHARACTERS) if start else None,
        after=end if end < len(text) else None,
    )


def pins_by_turn(pins: tuple[Pin, ...]) -> dict[int, list[Pin]]:
    by_turn: dict[int, list[Pin]] = {}
    for pin in pins:
        by_turn.setdefault(pin.turn_no, []).append(pin)
    return by_turn


async def _around(found: Branch, number: int) -> dict[str, Any]:
    """What a whole page says of a turn besides its messages."""
    return {
        "head": await found.head_turn(),
        "above": await found.summaries_of_turn(number),
        "artifacts": await found.artifacts_of_turn(number),
        "pins": pins_by_turn(await found.pins()).get(number, []),
    }


async def _number(request: Request, found: Branch) -> int:
    head = await found.head_turn()
    if not head:
        raise InvalidArgument(f"branch {found.branch_id!r:.80} has no turns yet")
    return whole_number(request, "turn", head, 1, head)
