"""Whatever is given as a message is read or refused by name, and what is read can be sent."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.errors import InvalidTurn
from tests.provider_requests import check_anthropic, check_gemini, check_responses
from tests.provider_turns import (
    ANTHROPIC,
    GEMINI,
    RESPONSES,
    anthropic,
    gemini,
    recorded,
    responses,
)

PIECES: list[Any] = []


def _collect(value: Any) -> None:
    if isinstance(value, dict):
        PIECES.append(value)
        for item in value.values():
            _collect(item)
    elif isinstance(value, list):
        for item in value:
            _collect(item)


_collect([ANTHROPIC, RESPONSES, GEMINI])
KEYS = sorted({key for piece in PIECES for key in piece})
TYPES = sorted({piece["type"] for piece in PIECES if "type" in piece})
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from(["", "user", "assistant", "model", "tool", "call_1", "data:,", *TYPES]),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from(PIECES),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> list[Any]:
    """A good turn with one thing replaced somewhere."""
    turn = draw(st.sampled_from([ANTHROPIC, RESPONSES, GEMINI]))
    place = draw(st.integers(0, len(turn) - 1))
    return [*turn[:place], draw(_replaced(turn[place])), *turn[place + 1 :]]


@st.composite
def _replaced(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: draw(_replaced(value[key]))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], draw(_replaced(value[place])), *value[place + 1 :]]
    return draw(VALUES)


@settings(max_examples=600, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=3) | damaged())
def test_anything_is_read_or_refused_and_what_is_read_can_be_sent(values: list[Any]) -> None:
    try:
        messages = recorded(*values)
    except InvalidTurn as error:
        assert "message" in str(error) or "no result" in str(error)
        return
    # What is kept as it came is as right or wrong as it came.
    own = {block.provider for message in messages for block in message.reasoning}
    for provider, render, check in (
        ("anthropic", anthropic, check_anthropic),
        ("openai", responses, check_responses),
        ("gemini", gemini, check_gemini),
    ):
        rendered = render(messages)
        if provider not in own:
            check(rendered)
