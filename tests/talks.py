"""A made-up conversation to be recorded, copied and searched."""

from datetime import UTC, datetime, timedelta

from benchmarks.retrieval.questions import Evidence, Question, Talk
from durable_context.transcripts import TranscriptTurn

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
STALLS = ("saffron", "pottery", "lantern", "basket", "honey", "carpet", "violin", "copper")
DEEDS = ("carried", "painted", "counted", "mended", "weighed", "traded", "wrapped")
PLACES = ("harbour", "bridge", "chapel", "orchard", "station")


def market(turns: int = 60) -> Talk:
    """Ada and Ben at a market: frequent words in every turn, a number of its own in each."""
    said = [_turn(number) for number in range(turns)]
    return Talk("market", tuple(said), (_question(7),))


def _turn(number: int) -> TranscriptTurn:
    stall, deed = STALLS[number % len(STALLS)], DEEDS[number % len(DEEDS)]
    place = PLACES[number % len(PLACES)]
    user = f"Ada: We {deed} the crates of order {_order(number)} by the {place} this morning."
    answer = f"Ben: The {stall} stall sells cheaper than yesterday, and the crates were heavy."
    return TranscriptTurn(
        messages=({"role": "user", "content": user}, {"role": "assistant", "content": answer}),
        occurred_at=BEGIN + timedelta(hours=number),
    )


def _question(number: int) -> Question:
    order = _order(number)
    evidence = Evidence(number + 1, f"the crates of order {order}")
    return Question("market", f"Where was {order} carried?", "chapel", "single-hop", (evidence,))


def _order(number: int) -> str:
    return f"ORD-{number:04}"
