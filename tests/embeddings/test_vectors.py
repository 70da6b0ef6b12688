"""What may be a vector, and what of a turn becomes one."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from durable_context.embeddings.texts import EMBEDDED_CHARACTERS, embedded_text, query_text
from durable_context.embeddings.vectors import checked_vector
from durable_context.errors import InvalidArgument
from durable_context.models import Message, Turn


@pytest.mark.parametrize(
    "value", [[3, 4], (3.0, 4.0), np.array([3, 4], dtype=np.float32), iter([30.0, 40.0])]
)
def test_any_sequence_of_numbers_is_a_vector_and_gets_unit_length(value: object) -> None:
    assert checked_vector(value) == pytest.approx([0.6, 0.8])


def test_the_length_of_a_vector_may_be_beyond_a_float() -> None:
    assert checked_vector([1e308, 1e308]) == pytest.approx([math.sqrt(0.5)] * 2)
    assert checked_vector([1e-320, 0]) == [1, 0]


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("0.1, 0.2", "query_vector is of type str; it must be a sequence of numbers"),
        (b"ab", "of type bytes"),
        ({1: 2}, "of type dict"),
        (None, "of type NoneType"),
        (0.5, "of type float"),
        ([], "has 0 dimensions; allowed are 1 to 16,000"),
        ([1.0] * 16_001, "has 16,001 dimensions"),
        ([0.0, -0.0], "is zero throughout"),
        ([1.0, math.nan], r"query_vector\[1\]=nan; it must be a finite number"),
        ([math.inf], "must be a finite number"),
        ([10**400], "must be a finite number"),
        ([True], "must be a finite number"),
        (["1"], "must be a finite number"),
        ([[1.0, 2.0]], "must be a finite number"),
    ],
)
def test_what_is_no_vector_is_refused_with_what_is_allowed(value: object, allowed: str) -> None:
    with pytest.raises(InvalidArgument, match=allowed):
        checked_vector(value)


def test_a_vector_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="x has 2 dimensions, not 3"):
        checked_vector([1, 2], name="x", dimensions=3)


def turn(*messages: Message) -> Turn:
    now = datetime(2025, 1, 1, tzinfo=UTC)
    return Turn(
        turn_no=1,
        turn_key="key",
        messages=messages,
        token_count=1,
        outcome="complete",
        continues=False,
        occurred_at=now,
        recorded_at=now,
        digest="Ran the tests of billing.",
    )


def test_what_both_said_is_embedded_and_what_tools_returned_is_not() -> None:
    text = embedded_text(
        turn(
            Message(role="user", content="Where is my parcel?"),
            Message(role="assistant", content="I look."),
            Message(role="tool", content="tracking: 17 rows", tool_call_id="a"),
            Message(role="assistant", content="In Rotterdam."),
        )
    )
    assert text == "Where is my parcel?\nI look.\nIn Rotterdam."


def test_a_stretch_without_words_is_told_by_its_digest() -> None:
    text = embedded_text(turn(Message(role="tool", content="3 passed", tool_call_id="a")))
    assert text == "Ran the tests of billing."


def test_a_long_turn_is_cut_and_keeps_beginning_and_end_of_both() -> None:
    asked, answered = (
        f"{who} begins {'word ' * 50_000}{who} ends" for who in ("user", "assistant")
    )
    text = embedded_text(
        turn(Message(role="user", content=asked), Message(role="assistant", content=answered))
    )
    assert EMBEDDED_CHARACTERS - 10 < len(text) <= EMBEDDED_CHARACTERS + 1
    assert all(f"{who} {end}" in text for who in ("user", "assistant") for end in ("beg", "ends"))


def test_a_short_question_leaves_its_room_to_the_answer() -> None:
    text = embedded_text(
        turn(Message(role="user", content="Why?"), Message(role="assistant", content="w " * 3_000))
    )
    assert len(text) > EMBEDDED_CHARACTERS - 10


def test_queries_and_turns_are_redacted() -> None:
    secret = "sk-proj-abcdefghijklmnop1234567890ABCDEF"
    assert "abcdefgh" not in query_text(f"why is {secret} refused?")
    assert "abcdefgh" not in embedded_text(turn(Message(role="user", content=f"use {secret}")))
