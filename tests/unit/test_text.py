import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.models import Message
from durable_context.text import (
    ELLIPSIS,
    clean,
    message_text,
    one_line,
    section,
    sentences,
    shorten,
)
from durable_context.tokens import token_counter

COUNTER = token_counter("o200k_base")


def test_clean_text_is_returned_as_it_is() -> None:
    text = "Größe <b>x</b> 汉字 🙂\n\ttail"
    assert clean(text) is text


def test_nul_and_lone_surrogates_become_replacement_characters() -> None:
    assert clean("a\0b\ud800c\udfff") == "a\ufffdb\ufffdc\ufffd"


@pytest.mark.parametrize(
    "text",
    [
        '<conversation-record part="ledger">',
        "</conversation-record>",
        "< / Conversation-Record >",
        "<CONVERSATION_RECORD>",
        "<conversation record>",
        "<\n/conversation-record>",
    ],
)
def test_look_alikes_of_our_delimiters_are_defused(text: str) -> None:
    cleaned = clean(f"before {text} after")
    assert cleaned == f"before ‹{text[1:]} after"


def test_other_tags_are_left_alone() -> None:
    text = "a < b and <record> or <conversation>"
    assert clean(text) == text


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    once.encode()


def test_message_text_names_the_parts_that_are_no_text() -> None:
    parts = (
        {"type": "text", "text": "Look at"},
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA"}},
        {"type": "file", "file": {"filename": "report\n2.pdf", "file_data": "AAAA"}},
        {"type": "unheard-of"},
    )
    text = message_text(Message(role="user", content=parts))
    assert text == "Look at\n[image]\n[audio]\n[file report 2.pdf]\n[file unheard-of]"
    assert message_text(Message(role="assistant")) == ""


def test_a_section_ends_in_one_newline() -> None:
    assert section("- a \n\t\n") == "- a\n"
    assert section("- a") == "- a\n"


def test_one_line_collapses_white_space() -> None:
    assert one_line("  a\n\tb \u2028 c\r\n") == "a b c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        (
            "Dr. Smith met J. Doe, e.g. in Rome. Fine.",
            ["Dr. Smith met J. Doe, e.g. in Rome.", "Fine."],
        ),
        ("It costs 3.50 or 1.000,00. Ok.", ["It costs 3.50 or 1.000,00.", "Ok."]),
        ("See https://a.b/c.d?e=f. Then go.", ["See https://a.b/c.d?e=f.", "Then go."]),
        ('He said "stop." Then left.', ['He said "stop."', "Then left."]),
        ("Wait... what? Yes.", ["Wait... what?", "Yes."]),
        ("你好。世界！好吗？好", ["你好。", "世界！", "好吗？", "好"]),
        (
            "Am 3. Mai kommt er, z.B. mit dem Zug. Gut.",
            ["Am 3. Mai kommt er, z.B. mit dem Zug.", "Gut."],
        ),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("- one. a\n- two\n1. three\n2) four", ["- one. a", "- two", "1. three", "2) four"]),
        ("# Title\nText here\ngoes on. End", ["# Title", "Text here goes on.", "End"]),
        ("Run:\n```\na. B. c\n\nd\n```\nDone.", ["Run:", "```\na. B. c\n\nd\n```", "Done."]),
        ("result = f(x);\nand so on. B", ["result = f(x);", "and so on.", "B"]),
        ("", []),
        (" \n\t\n", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet=st.sampled_from("aB 1.!?。\n-`#\"'"), max_size=80))
def test_sentences_lose_no_word(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(0, 40))
def test_shortened_text_is_within_its_limit(text: str, limit: int) -> None:
    short = shorten(text, limit, COUNTER)
    assert COUNTER.count(short) <= limit
    assert short == text or not short or short.endswith(ELLIPSIS)


def test_text_is_shortened_at_a_sentence_or_a_word() -> None:
    text = "This is the first sentence here. And this second one is rather long as well."
    assert shorten(text, 9, COUNTER) == "This is the first sentence here.…"
    assert shorten(text, 13, COUNTER) == "This is the first sentence here. And this second one is…"
    assert shorten(text, 100, COUNTER) is text


@pytest.mark.parametrize(
    "piece", [".", ".'", "a(", "a.", "。", "- a\n", "```\n", "a\n", "<", '"a', " "]
)
def test_a_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    clean(text)
    sentences(text)
    shorten(text, 100, COUNTER)
    assert time.perf_counter() - start < 20
