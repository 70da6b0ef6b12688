import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.models import Message, ToolCall
from durable_context.tokens import CONTENT_WITH_CALLS_OVERHEAD, TokenCounter, token_counter
from durable_context.turns.views import content_view, view_of

COUNTER = token_counter("o200k_base")
LOG = "\n".join(f"2024-05-20 12:00:{i:02d} worker {i} finished job {i * 17}" for i in range(400))
ORDERS = json.dumps(
    {
        "customer": {"id": "mia_li_3668", "email": "mia@example.com"},
        "orders": [
            {"id": f"AB{i:03d}", "lines": [{"sku": i, "note": "x" * 80}]} for i in range(90)
        ],
        "total": 90,
        "open": True,
    }
)


def result(content: str) -> Message:
    return Message(role="tool", tool_call_id="call_1", content=content)


def calling(*arguments: str, content: str | None = None) -> Message:
    calls = tuple(
        ToolCall(id=f"call_{i}", name="write_file", arguments=text)
        for i, text in enumerate(arguments)
    )
    return Message(role="assistant", content=content, tool_calls=calls)


def overhead(message: Message, counter: TokenCounter = COUNTER) -> int:
    """What a message costs beside its content and arguments."""
    calls = tuple(call.model_copy(update={"arguments": ""}) for call in message.tool_calls)
    rest = message.model_copy(update={"content": None, "tool_calls": calls})
    beside = CONTENT_WITH_CALLS_OVERHEAD if message.content and calls else 0
    return counter.count_message(rest) + beside


def test_a_small_message_is_its_own_view() -> None:
    message = result("ok")
    assert view_of(message, max_tokens=40, counter=COUNTER) is message


def test_a_log_shows_its_size_its_beginning_and_its_end() -> None:
    text = view_of(result(LOG), max_tokens=200, counter=COUNTER).content
    assert isinstance(text, str)
    lines = text.splitlines()
    assert lines[0] == f"[text, 400 lines, {len(LOG):,} characters: beginning and end]"
    assert lines[1] == LOG.splitlines()[0]
    assert lines[-1] == LOG.splitlines()[-1]
    marks = [line for line in lines if line.startswith("[…")]
    assert len(marks) == 1
    assert marks[0].endswith("characters omitted …]")
    assert all(line in LOG for line in lines[1:] if line not in marks)


def test_a_json_document_shows_its_shape() -> None:
    text = view_of(result(ORDERS), max_tokens=200, counter=COUNTER).content
    assert isinstance(text, str)
    head, preview = text.split("\n", 1)
    assert head == f"[JSON object of 4, {len(ORDERS):,} characters: shape and samples]"
    shown = json.loads(preview)
    assert list(shown) == ["customer", "orders", "total", "open"]
    assert shown["customer"] == {"id": "mia_li_3668", "email": "mia@example.com"}
    assert shown["orders"][0]["id"] == "AB000"
    assert "more of 90 items" in shown["orders"][-1]
    assert shown["total"] == 90


def test_a_json_array_says_how_long_it_is() -> None:
    text = content_view(json.dumps([{"id": i, "text": "y" * 50} for i in range(300)]), 80, COUNTER)
    assert text.startswith("[JSON array of 300, ")
    assert json.loads(text.split("\n", 1)[1])[-1].endswith("more of 300 items")


def test_more_room_shows_more() -> None:
    sizes = [len(content_view(ORDERS, room, COUNTER)) for room in (60, 200, 800, 3_000)]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 3 * sizes[0]


@pytest.mark.parametrize("broken", ['{"a": [1, 2', "[" * 100_000, '{"n": ' + "9" * 9_000 + "}"])
def test_what_looks_like_json_and_is_not_is_shown_as_text(broken: str) -> None:
    text = content_view(broken * 40, 60, COUNTER)
    assert text.startswith("[text, ")


def test_a_view_keeps_what_makes_the_message_valid() -> None:
    whole = Message(role="tool", tool_call_id="call_9", name="search", content=LOG)
    view = view_of(whole, max_tokens=100, counter=COUNTER)
    assert (view.role, view.tool_call_id, view.name) == ("tool", "call_9", "search")


def test_large_arguments_are_cut_inside_valid_json() -> None:
    arguments = json.dumps(
        {"path": "/srv/app.py", "content": "print('größe')\n" * 500, "mode": 420}
    )
    view = view_of(calling(arguments), max_tokens=120, counter=COUNTER)
    shown = json.loads(view.tool_calls[0].arguments)
    assert shown["path"] == "/srv/app.py"
    assert shown["mode"] == 420
    assert shown["content"].startswith("print('größe')")
    assert shown["content"].endswith("…")
    assert (view.tool_calls[0].id, view.tool_calls[0].name) == ("call_0", "write_file")


def test_small_arguments_beside_large_content_stay_as_they_were_written() -> None:
    written = '{ "path" :"/srv/app.py"}'
    view = view_of(calling(written, content=LOG), max_tokens=120, counter=COUNTER)
    assert view.tool_calls[0].arguments == written
    assert view.content != LOG


def test_arguments_that_are_no_json_are_wrapped_only_when_too_large() -> None:
    small, large = "not json", "not json " * 500
    view = view_of(calling(small, large), max_tokens=100, counter=COUNTER)
    assert view.tool_calls[0].arguments == small
    assert json.loads(view.tool_calls[1].arguments)["_omitted"].startswith("not json")


def test_arguments_without_any_room_become_an_empty_object() -> None:
    message = calling(*['{"text": "' + "x" * 500 + '"}'] * 12)
    view = view_of(message, max_tokens=40, counter=COUNTER)
    assert {call.arguments for call in view.tool_calls} == {"{}"}


def test_half_a_surrogate_pair_in_cut_arguments_does_not_reach_the_provider() -> None:
    arguments = json.dumps({"q": "\ud800", "text": "word " * 500})
    [call] = view_of(calling(arguments), max_tokens=60, counter=COUNTER).tool_calls
    call.arguments.encode()
    assert len(call.arguments) < len(arguments) and "q" in json.loads(call.arguments)


def test_numbers_that_json_does_not_have_do_not_reach_the_provider() -> None:
    message = calling('{"a": NaN, "b": -Infinity, "text": "' + "x" * 5_000 + '"}')
    view = view_of(message, max_tokens=100, counter=COUNTER)
    assert _strict(view.tool_calls[0].arguments)["a"] == "NaN"


def test_images_become_words() -> None:
    parts = (
        {"type": "text", "text": "See this"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    )
    view = view_of(Message(role="user", content=parts), max_tokens=100, counter=COUNTER)
    assert view.content == "See this\n[image]"


JSON_TEXT = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=300)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=30), st.dictionaries(st.text(max_size=20), inner, max_size=20)
    ),
    max_leaves=60,
).map(lambda value: json.dumps(value, ensure_ascii=False))
TEXT = st.one_of(
    st.text(max_size=500),
    JSON_TEXT,
    st.tuples(st.text(max_size=30), st.integers(1, 400)).map(lambda pair: pair[0] * pair[1]),
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.none(), TEXT), st.lists(TEXT, max_size=4), st.integers(40, 300))
def test_a_view_is_within_its_cap_valid_and_never_larger(
    content: str | None, arguments: list[str], cap: int
) -> None:
    message = calling(*arguments, content=content)
    view = view_of(message, max_tokens=cap, counter=COUNTER)
    assert COUNTER.count_message(view) <= min(
        COUNTER.count_message(message), cap + overhead(message)
    )
    for whole, shown in zip(message.tool_calls, view.tool_calls, strict=True):
        if shown.arguments != whole.arguments:
            assert isinstance(_strict(shown.arguments), dict)
    assert view == view_of(message, max_tokens=cap, counter=COUNTER)
    assert bool(view.content) == bool(content)


def _strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("piece", ["a", " ", "\n", ".", '{"a":', "汉", "_", '"', "[1,"])
def test_a_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    view = view_of(calling(text, content=text), max_tokens=200, counter=COUNTER)
    assert time.perf_counter() - start < 10
    assert COUNTER.count_message(view) <= 200 + overhead(view)
