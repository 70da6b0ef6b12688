"""Turns and requests for summarizers, made without a database."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from durable_context.models import Message, Outcome, Summary, ToolCall, Turn
from durable_context.summarizers import SummaryRequest
from durable_context.tokens import token_counter

COUNTER = token_counter("o200k_base")
WHEN = datetime(2024, 5, 15, 15, 0, tzinfo=UTC)


def turn(turn_no: int, *messages: Message, outcome: Outcome = "complete") -> Turn:
    return Turn(
        turn_no=turn_no,
        turn_key=f"key-{turn_no}",
        messages=messages,
        token_count=sum(COUNTER.count_message(message) for message in messages),
        outcome=outcome,
        continues=False,
        occurred_at=WHEN,
        recorded_at=WHEN,
        digest="",
    )


def said(turn_no: int, user: str | None, assistant: str | None = None) -> Turn:
    both = [("user", user), ("assistant", assistant)]
    return turn(
        turn_no,
        *(Message(role=role, content=text) for role, text in both if text is not None),  # type: ignore[arg-type]
    )


def user(text: str, name: str | None = None) -> Message:
    return Message(role="user", content=text, name=name)


def assistant(text: str, name: str | None = None) -> Message:
    return Message(role="assistant", content=text, name=name)


def calling(call_id: str, name: str, result: str, **arguments: Any) -> tuple[Message, Message]:
    """A call and its result."""
    call = ToolCall(id=call_id, name=name, arguments=json.dumps(arguments))
    return (
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", tool_call_id=call_id, content=result),
    )


def leaf(turns: Sequence[Turn], **options: Any) -> SummaryRequest:
    first, last = turns[0].turn_no, turns[-1].turn_no
    return SummaryRequest(level=0, from_turn=first, to_turn=last, turns=tuple(turns), **options)


def merging(nodes: Sequence[Summary], **options: Any) -> SummaryRequest:
    first, last = nodes[0].from_turn, nodes[-1].to_turn
    level = nodes[0].level + 1
    return SummaryRequest(level=level, from_turn=first, to_turn=last, nodes=tuple(nodes), **options)


def node(
    from_turn: int, to_turn: int, headline: str, text: str, *, made_by: str, level: int = 0
) -> Summary:
    tokens = COUNTER.count(headline) + COUNTER.count(text)
    return Summary(
        summary_id=UUID(int=level * 1_000_000 + from_turn),
        level=level,
        from_turn=from_turn,
        to_turn=to_turn,
        headline=headline,
        text=text,
        token_count=tokens,
        recipe=made_by,
        made_by=made_by,
        revision=1,
        degraded=False,
        input_tokens=10 * tokens,
        covered_tokens=10 * tokens,
        created_at=WHEN,
    )


def booking(first: int = 1) -> list[Turn]:
    """Six turns of an airline's agent at work, made up."""
    return [
        turn(
            first,
            user("Hello! I'd like to book a flight from New York to Seattle on May 20th, please."),
            assistant("I can help with that. Could you please give me your user ID?"),
        ),
        turn(
            first + 1,
            user("Sure. My user ID is nora_lind_3668."),
            *calling("c1", "get_user_details", '{"name": "Nora Lind"}', user_id="nora_lind_3668"),
            *calling("c2", "search_flights", '[{"flight": "HAT136"}]', origin="JFK", to="SEA"),
            assistant("Two flights leave after 11 AM: HAT136 for $121 and HAT039 for $184."),
        ),
        turn(
            first + 2,
            user("HAT136 then. Use my gift card first and my credit card for the rest."),
            *calling("c3", "book", "Error: payment amount does not add up", flight="HAT136"),
            *calling("c4", "book", '{"reservation_id": "ZX81QL"}', flight="HAT136", bags=2),
            assistant("HAT136 is booked: reservation ZX81QL, $21 on your credit card."),
        ),
        turn(
            first + 3,
            user("Can I still add a checked bag tomorrow?"),
            assistant("Yes, you can add bags until three hours before departure."),
        ),
        turn(
            first + 4,
            user("What would it cost to cancel?"),
            *calling("c5", "calculate", "105.0", expression="121 - 16"),
            assistant("Cancelling before May 18th refunds $105 to your credit card."),
        ),
        turn(
            first + 5,
            user("Thanks, that is all."),
            assistant("You're welcome! Have a great day."),
        ),
    ]
