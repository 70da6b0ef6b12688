"""The long lineage that retrieval is timed in, and what its figures mean."""

from collections import Counter
from io import StringIO
from itertools import islice

from rich.console import Console

from benchmarks.retrieval.lineage import lineage
from benchmarks.retrieval.speed import (
    LONG_MESSAGES,
    MESSAGE_TOKENS,
    NO_RETRIEVAL,
    QUESTIONS,
    Speed,
    Spread,
    long_messages,
)
from benchmarks.retrieval.speed_bounds import Compared
from benchmarks.retrieval.speed_report import goals, show_speed
from durable_context.tokens import token_counter
from tests.talks import market


def texts(turns: int, once: int = 60) -> list[str]:
    long = lineage([market(once)], turns)
    return [message["content"] for turn in long.turns() for message in turn.messages]


def test_a_lineage_has_as_many_turns_as_were_asked_for() -> None:
    for turns in (30, 60, 61, 200):
        assert len(list(lineage([market()], turns).turns())) == turns


def test_an_original_lies_among_the_copies_with_its_questions() -> None:
    long = lineage([market()], 300)
    (question,) = long.questions()
    (evidence,) = question.evidence
    said = next(islice(long.turns(), evidence.turn_no - 1, None)).messages[0]["content"]
    assert 60 < evidence.turn_no < 240
    assert evidence.text in said


def test_questions_whose_evidence_was_cut_off_are_not_asked() -> None:
    assert lineage([market()], 5).questions() == []


def test_a_lineage_is_the_same_every_time() -> None:
    assert texts(200) == texts(200)


def test_copies_say_something_else_with_words_as_frequent() -> None:
    copy, original = texts(120)[:120], texts(120)[120:]
    assert original == texts(60)
    assert copy != original
    frequent = [count for _, count in Counter(" ".join(copy).lower().split()).most_common(8)]
    as_said = [count for _, count in Counter(" ".join(original).lower().split()).most_common(8)]
    assert frequent == as_said


def test_copies_are_days_apart() -> None:
    turns = list(lineage([market()], 120).turns())
    assert turns[0].occurred_at and turns[60].occurred_at
    assert (turns[60].occurred_at - turns[0].occurred_at).days == 40


def test_long_messages_fill_their_tokens() -> None:
    counter = token_counter("o200k_base")
    for message in long_messages([market()], counter):
        assert MESSAGE_TOKENS - 20 < counter.count(message) <= MESSAGE_TOKENS


def speed(long_p50: float, long_p99: float, lost: float) -> Speed:
    short, long = Spread(2.0, 3.0, 4.0, 100), Spread(long_p50, long_p99, long_p99, 100)
    return Speed(
        600,
        100_000,
        {
            (kind, turns): spread
            for kind in (NO_RETRIEVAL, QUESTIONS, LONG_MESSAGES)
            for turns, spread in ((600, short), (100_000, long))
        },
        [
            Compared("joined", QUESTIONS, 10, 0.9, 0.8, 0.8 - lost / 100),
            Compared("100,000 turns", LONG_MESSAGES, 10, 0.5, None, None),
        ],
    )


def test_goals_are_met_up_to_their_limits() -> None:
    assert all(goal.met for goal in goals(speed(5.0, 10.0, 0.9)))
    missed = [goal.name for goal in goals(speed(5.1, 10.1, 1.1)) if not goal.met]
    assert len(missed) == 5


def test_percentiles_are_of_the_sorted_calls() -> None:
    spread = Spread.of([number / 1000 for number in range(100, 0, -1)])
    assert (spread.p50, spread.p95, spread.p99, spread.samples) == (50.5, 96.0, 100.0, 100)


def test_the_tables_tell_times_losses_and_goals() -> None:
    text = StringIO()
    show_speed(speed(5.0, 10.1, 0.0), Console(file=text, width=120))
    for part in (QUESTIONS, LONG_MESSAGES, NO_RETRIEVAL, "2.50", "+0.00 points", "0.500", "missed"):
        assert part in text.getvalue(), part


def test_originals_lie_from_the_beginning_to_the_end() -> None:
    long = lineage([market(40), market(20), market(30)], 900)
    begun = [sum(len(part.talk.turns) for part in long.parts[: part.number]) for part in long.parts]
    originals = [turn for turn, part in zip(begun, long.parts, strict=True) if part.copy == 0]
    assert originals == [0, 4 * 90 + 40, 9 * 90 + 60]
