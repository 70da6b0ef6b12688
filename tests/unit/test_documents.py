"""What the extractive summary of an artifact says of a table."""

from datetime import UTC, datetime

from durable_context import Message, Turn
from durable_context.summarizers import SummaryRequest
from durable_context.summarizers.extractive import ExtractiveSummarizer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def summary_of(text: str) -> str:
    turn = Turn(
        turn_no=1,
        turn_key="k",
        messages=(Message(role="tool", tool_call_id="a", content=text),),
        token_count=6_000,
        outcome="complete",
        continues=False,
        occurred_at=NOON,
        recorded_at=NOON,
        digest="",
    )
    request = SummaryRequest(level=0, from_turn=1, to_turn=1, turns=(turn,), artifact="text")
    return (await ExtractiveSummarizer().summarize(request)).text


def table(odd: dict[int, str]) -> str:
    rows = [
        odd.get(n, f"SHP-{n:04d} left Rotterdam on day {n} with {n * 7} kg, on time")
        for n in range(300)
    ]
    return "\n".join(["shipment, departure, weight, state", *rows])


async def test_the_one_line_unlike_the_others_is_told():
    odd = "SHP-0251 held in Hamburg: customs papers missing"
    assert odd in await summary_of(table({251: odd}))


async def test_a_table_of_like_lines_tells_of_none():
    assert "unlike" not in await summary_of(table({}))


async def test_lines_that_are_all_different_are_not_called_odd():
    words = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}word" for n in range(300)]
    assert "unlike" not in await summary_of("\n".join(f"{word} and {word}s" for word in words))
