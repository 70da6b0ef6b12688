"""The exact next prompt of a branch: what the model would get, and what that is made of.

It is prepared without a trace: neither does a look write anything, nor is a prompt that does not
fit an event.
"""

import json
from typing import Any, Final, NamedTuple, cast, get_args

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from durable_context import Branch, Budget, BudgetExceeded, PreparedContext
from durable_context.cli.options import DEFAULT_BUDGET
from durable_context.control.seen_prompt import PromptParts
from durable_context.errors import InvalidArgument, InvalidTurn
from durable_context.inspector.long_text import Excerpt, excerpts, piece
from durable_context.inspector.pages import branch_of, page, whole_number
from durable_context.inspector.shown_prompt import (
    Format,
    ShownMessage,
    ShownPart,
    marked,
    request_of,
    shown_messages,
    words_asked,
)
from durable_context.prompts.manifest import Block

LARGEST_BUDGET: Final = 10_000_000
MESSAGES: Final = 150
"""Messages on the page; those between the first and the last of them are left out."""
PARTS: Final = 60
"""Parts of one message on the page."""
SOURCES: Final = 40
TOOLS: Final = 100
"""Names of tools on the page."""


class _Asked(NamedTuple):
    """The form. `message` None: the next call of an open run, or what there is without one.
    `newest`: what the agent's newest prompt was made with, which is asked for until the form says
    otherwise.
    """

    message: str | None
    budget: Budget
    at_turn: int | None
    format: Format
    newest: PromptParts | None


class _Part(NamedTuple):
    """A part with as much of it as the page has room for; of a retrieved one the words marked."""

    part: ShownPart
    excerpt: Excerpt
    head: tuple[tuple[str, bool], ...]
    folded: tuple[tuple[str, bool], ...]


class _Message(NamedTuple):
    shown: ShownMessage
    parts: tuple[_Part, ...]
    left_out: int


class _Bar(NamedTuple):
    """A block in the bar: `x` and `width` of 1,000."""

    block: Block
    x: float
    width: float
    share: float


async def prompt(request: Request) -> Response:
    branch = await branch_of(request)
    asked = await _asked(request, branch)
    try:
        prepared = await _prepared(branch, asked)
    except InvalidTurn as error:
        return _page(request, branch, asked, nothing=str(error))
    if isinstance(prepared, BudgetExceeded):
        return _page(request, branch, asked, exceeded=prepared, bars=_bars(prepared.blocks))
    messages = shown_messages(prepared, asked.format)
    words = words_asked(asked.message)
    kept = messages if len(messages) <= MESSAGES else (*messages[:20], *messages[20 - MESSAGES :])
    return _page(
        request,
        branch,
        asked,
        prepared=prepared,
        bars=_bars(prepared.manifest.blocks),
        messages=_messages(kept, words),
        left_out=len(messages) - len(kept),
        words=words,
    )


async def prompt_message(request: Request) -> Response:
    """One message whole, in pieces: `number`, and of it `part` from the character `start` on."""
    branch = await branch_of(request)
    asked = await _asked(request, branch)
    prepared = await _prepared(branch, asked)
    if isinstance(prepared, BudgetExceeded):
        raise InvalidArgument("no prompt fits the budget any more: prepare it again")
    head_turn = whole_number(request, "head_turn", prepared.manifest.head_turn, 0, 2**31 - 1)
    if head_turn != prepared.manifest.head_turn:
        raise InvalidArgument(
            f"the prompt was made at turn {head_turn:,}, and the branch has gone on to turn"
            f" {prepared.manifest.head_turn:,}: prepare it again"
        )
    messages = shown_messages(prepared, asked.format)
    # One value names the place, so that a button of a form can: number, part and character.
    place = _place(request)
    if place[0] >= len(messages) or place[1] >= len(messages[place[0]].parts):
        raise InvalidArgument(f"the prompt has no part {place[1]} of a message {place[0]}")
    part = messages[place[0]].parts[place[1]]
    whole = "hx-request" not in request.headers
    return page(
        request,
        "prompt_message.html" if whole else "_prompt_piece.html",
        title=f"Message {place[0]}",
        branch=branch,
        message=messages[place[0]],
        part=part,
        place=place,
        piece=piece(part.text, place[2]),
        fields=_fields(branch, asked, prepared.manifest.head_turn),
    )


async def prompt_request(request: Request) -> Response:
    """The request as JSON, for a look at its bytes."""
    branch = await branch_of(request)
    asked = await _asked(request, branch)
    prepared = await _prepared(branch, asked)
    if isinstance(prepared, BudgetExceeded):
        raise InvalidArgument(f"no prompt fits: the smallest has {prepared.smallest:,} tokens")
    made = json.dumps(request_of(prepared, asked.format), indent=2, default=repr)
    return Response(made, media_type="application/json")


async def _prepared(branch: Branch, asked: _Asked) -> PreparedContext | BudgetExceeded:
    return await branch.foresee_prompt(asked.message, budget=asked.budget, at_turn=asked.at_turn)


async def _asked(request: Request, branch: Branch) -> _Asked:
    query = request.query_params
    chosen = query.get("format") or "openai"
    if chosen not in get_args(Format):
        raise InvalidArgument(f"format={chosen!r:.40}; allowed are {', '.join(get_args(Format))}")
    at_turn = whole_number(request, "at_turn", -1, 0, 2**31 - 1)
    newest = await branch.newest_parts()
    return _Asked(
        message=_lines(query.get("message")),
        budget=_budget(request, newest),
        at_turn=None if at_turn < 0 else at_turn,
        format=cast("Format", chosen),
        newest=newest,
    )


def _budget(request: Request, newest: PromptParts | None) -> Budget:
    """Of an address without instructions or model those of the newest prompt."""
    query = request.query_params
    instructions = _lines(query.get("instructions"))
    if newest is not None and "instructions" not in query:
        instructions = newest.instructions
    model = query.get("model", (newest.model or "") if newest else "")
    with_tools = "instructions" not in query or bool(query.get("tools"))
    try:
        return Budget(
            max_tokens=whole_number(request, "budget", DEFAULT_BUDGET, 1, LARGEST_BUDGET),
            instructions=instructions,
            tools=newest.tools if newest and with_tools else (),
            model=model or None,
        )
    except ValidationError as error:
        raise InvalidArgument(error.errors()[0]["msg"]) from None


def _lines(text: str | None) -> str | None:
    """Browsers end lines of forms in their own way. None where nothing was written."""
    return text.replace("\r\n", "\n") if text and text.strip() else None


def _place(request: Request) -> tuple[int, int, int]:
    text = request.query_params.get("place", "")
    numbers = text.split(".")
    if len(numbers) != 3 or not all(one.isdecimal() and len(one) <= 10 for one in numbers):
        raise InvalidArgument(f"place={text!r:.40}; it must be MESSAGE.PART.CHARACTER")
    return int(numbers[0]), int(numbers[1]), int(numbers[2])


def _page(request: Request, branch: Branch, asked: _Asked, **values: Any) -> Response:
    prepared = values.get("prepared")
    head_turn = prepared.manifest.head_turn if prepared is not None else None
    known: dict[str, Any] = {"prepared": None, "exceeded": None, "nothing": None}
    return page(
        request,
        "prompt.html",
        title="Next prompt",
        branch=branch,
        asked=asked,
        formats=get_args(Format),
        most_sources=SOURCES,
        tools=[_tool_name(tool) for tool in asked.budget.tools[:TOOLS]],
        fields=_fields(branch, asked, head_turn),
        **(known | values),
    )


def _tool_name(tool: dict[str, Any]) -> str:
    described = tool.get("function", tool)
    return str(described.get("name", "?")) if isinstance(described, dict) else "?"  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]


def _fields(branch: Branch, asked: _Asked, head_turn: int | None) -> dict[str, str]:
    """What a form asks for the same prompt with; what is None is left out."""
    fields = {
        "conversation": branch.conversation_id,
        "branch": branch.branch_id,
        "message": asked.message,
        "budget": asked.budget.max_tokens,
        "at_turn": asked.at_turn,
        "model": asked.budget.model or "",
        "instructions": asked.budget.instructions or "",
        "tools": 1 if asked.budget.tools else None,
        "format": asked.format,
        "head_turn": head_turn,
    }
    return {name: str(value) for name, value in fields.items() if value is not None}


def _bars(blocks: tuple[Block, ...]) -> list[_Bar]:
    total = max(1, sum(block.token_count for block in blocks))
    bars: list[_Bar] = []
    before = 0
    for block in blocks:
        share = block.token_count / total
        bars.append(_Bar(block, round(1000 * before / total, 2), round(1000 * share, 2), share))
        before += block.token_count
    return bars


def _messages(messages: tuple[ShownMessage, ...], words: tuple[str, ...]) -> list[_Message]:
    made = excerpts(part.text for message in messages for part in message.parts[:PARTS])
    return [
        _message(message, [next(made) for _ in message.parts[:PARTS]], words)
        for message in messages
    ]


def _message(message: ShownMessage, found: list[Excerpt], words: tuple[str, ...]) -> _Message:
    sought = words if "retrieved" in message.block else ()
    parts = (
        _Part(
            part,
            excerpt,
            tuple(marked(excerpt.head, sought)),
            tuple(marked(excerpt.folded, sought)),
        )
        for part, excerpt in zip(message.parts[:PARTS], found, strict=True)
    )
    return _Message(message, tuple(parts), len(message.parts) - len(found))
