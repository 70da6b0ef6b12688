import time
from datetime import date

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context.absolute_dates import date_terms, named_dates
from durable_context.exact_terms import TERM_CHARACTERS
from durable_context.models import Message, ToolCall
from durable_context.search_terms import (
    SEARCHED_CHARACTERS,
    TERMS,
    message_search_text,
    search_text,
)

MONDAY = date(2023, 5, 8)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Please check ORD-4412.", {"=ord-4412", "=4412"}),
        ("foo_bar, FooBar and getUserName()", {"=foo_bar", "=foobar", "=getusername"}),
        ("in /srv/app/x.py:", {"=/srv/app/x.py", "=x.py"}),
        (r"src\a\b.c", {r"=src\a\b.c", "=b.c"}),
        ("x.py:123", {"=x.py:123", "=x.py", "=123"}),
        ("see (https://docs.example.com/p/1212?a=b).", {"=docs.example.com", "=1212"}),
        ("mail a.b@example.com", {"=a.b@example.com", "=example.com"}),
        ("ERR_1234, E0308, HTTP 503!", {"=err_1234", "=e0308", "=503"}),
        ("v1.2.3 on 10.0.0.12", {"=v1.2.3", "=1.2.3", "=10.0.0.12"}),
        ("fixes #123", {"=#123", "=123"}),
        ("std::vector in C++ and C#", {"=std::vector", "=c++", "=c#"}),
        ("$1,250.50", {"=1,250.50", "=1250.50"}),
        ("1.250,50 €", {"=1.250,50", "=1250.50"}),
        ("3,000 or 1.000", {"=3,000", "=3000", "=1.000", "=1000"}),
        ("12,34", {"=12,34", "=12.34", "=12", "=34"}),
        ("ORD-1,7,ORD-2", {"=ord-1", "=ord-2"}),
        ("v2 of 1.5k", {"=v2", "=1.5k"}),
        ("**obj.foo_bar** `a_b`", {"=obj.foo_bar", "=foo_bar", "=a_b"}),
        ("Ｆｕｌｌ＿１２", {"=full_12"}),
    ],
)
def test_what_the_parser_tears_apart_is_a_term(text: str, terms: set[str]) -> None:
    found = search_text(text).terms
    urls = {term for term in found if "://" in term}
    assert set(found) - urls == terms


def test_a_url_is_a_term_without_the_punctuation_behind_it() -> None:
    terms = search_text("Open https://example.com/a?b=c. Or not").terms
    assert terms == ("=https://example.com/a?b=c", "=example.com")


@pytest.mark.parametrize(
    "text",
    [
        "A well-known plain sentence, isn't it?",
        "e.g. this, i.e. that... wait...what",
        "he/she and/or --no-verify",
        "the 1st, 2nd and 8th of 7",
        "# Heading - *** ___ ///",
        "Größe, ÉCOLE, NASA",
        "",
    ],
)
def test_plain_words_are_left_to_the_parser(text: str) -> None:
    assert search_text(text).terms == ()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("東京タワー", ("東京", "京タ", "タワ", "ワー")),
        ("서울에서 봐", ("서울", "울에", "에서", "봐")),
        ("กขค", ("กข", "ขค")),
        ("မြန်", ("မြ", "ြန", "န်")),
        ("訂單ORD-4412を", ("=ord-4412", "=4412", "訂單", "を")),
        ("ﾀﾜｰ", ("タワ", "ワー")),
    ],
)
def test_writing_without_spaces_is_found_by_pairs_of_characters(
    text: str, terms: tuple[str, ...]
) -> None:
    assert search_text(text).terms == terms


def test_what_is_found_by_pairs_is_not_stemmed_too() -> None:
    assert search_text("Tokyo 東京 Tower").text.split() == ["Tokyo", "Tower"]


@pytest.mark.parametrize(
    "text",
    [
        "8 May 2023",
        "May 8th, 2023",
        "1:56 pm on 8 May, 2023",
        "the 8th of May 2023",
        "2023-05-08T13:56:00Z",
        "2023/05/08",
        "08.05.2023",
        "8.5.2023.",
        "am 8. Mai 2023",
        "le 8 mai 2023",
        "el 8 de mayo de 2023",
        "2023年5月8日",
        "2023년 5월 8일",
    ],
)
def test_a_date_is_found_by_its_day_month_and_year(text: str) -> None:
    assert named_dates(text) == ("=2023-05-08", "=2023-05", "=2023")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("in May 2023", ("=2023-05", "=2023")),
        ("mayo de 2023", ("=2023-05", "=2023")),
        ("in 2023-05", ("=2023-05", "=2023")),
        ("01/02/2023", ("=2023-02-01", "=2023-02", "=2023", "=2023-01-02", "=2023-01")),
        ("13/05/2023", ("=2023-05-13", "=2023-05", "=2023")),
        ("May 5-8, 2023", ("=2023-05-05", "=2023-05", "=2023")),
        ("31 February 2023", ()),
        ("v2023.1.2 of 192.168.2023.1", ()),
        ("you may 5 times", ()),
        ("May", ()),
        ("2023-13-40", ()),
    ],
)
def test_a_date_is_no_finer_than_it_was_said(text: str, terms: tuple[str, ...]) -> None:
    assert named_dates(text) == terms


def test_a_day_is_found_by_its_month_of_any_year() -> None:
    assert date_terms(MONDAY) == ("=2023-05-08", "=2023-05", "=2023", "=--05")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("I went yesterday", ("=2023-05-07", "=2023-05", "=2023")),
        ("Gestern war ich dort und es war gut", ("=2023-05-07", "=2023-05", "=2023")),
        ("last week", ("=2023-05", "=2023")),
        ("two months ago", ("=2023-03", "=2023")),
        ("the lasting peace", ()),
    ],
)
def test_other_days_are_counted_from_the_day_of_the_turn(text: str, terms: tuple[str, ...]) -> None:
    assert message_search_text(Message(role="user", content=text), MONDAY).terms == terms


def test_without_a_day_yesterday_is_a_word_like_others() -> None:
    assert message_search_text(Message(role="user", content="I went yesterday")).terms == ()


def test_a_hint_far_behind_in_a_long_text_counts() -> None:
    text = f"yesterday {'some words ' * 1_000} three days ago {'some words ' * 100}"
    terms = message_search_text(Message(role="user", content=text), MONDAY).terms
    assert set(terms) == {"=2023-05-07", "=2023-05-05", "=2023-05", "=2023"}


@pytest.mark.parametrize(
    ("name", "text", "speakers"),
    [
        ("Ada Lovelace", "Hi", ("ada", "lovelace")),
        (None, "Grace Hopper: I know", ("grace", "hopper")),
        ("ada", "Ada: I know", ("ada",)),
        (None, "Zoë: ja", ("zoë",)),
        (None, "Jean-Luc: engage", ("jean", "luc")),
        (None, "Error: no such file", ()),
        (None, "Re: your letter", ()),
        (None, "TODO: nothing", ()),
        (None, "What I mean is: no", ()),
        (None, "Chapter 1: Loomings", ()),
        (None, "Ada:no space", ()),
    ],
)
def test_the_words_of_a_speakers_name_are_known(
    name: str | None, text: str, speakers: tuple[str, ...]
) -> None:
    found = message_search_text(Message(role="user", name=name, content=text))
    assert found.speakers == speakers and found.terms == ()


def test_tool_calls_are_found_by_what_they_were_called_with() -> None:
    call = ToolCall(id="c1", name="get_user", arguments='{"id": "4WZDT3", "n": 55}')
    found = message_search_text(Message(role="assistant", tool_calls=(call,)))
    assert found.terms == ("=get_user", "=4wzdt3", "=55")
    assert "get_user" in found.text


def test_escapes_in_arguments_are_read() -> None:
    call = ToolCall(id="c1", name="say", arguments=r'{"text": "one\ntwo \u6771\u4eac C:\\new"}')
    found = message_search_text(Message(role="assistant", tool_calls=(call,)))
    assert found.terms == (r"=c:\new", "東京")


def test_terms_are_distinct_bounded_and_first_come() -> None:
    many = " ".join(f"id_{number}" for number in range(3_000))
    terms = search_text(f"{many} {many}").terms
    assert len(terms) == len(set(terms)) <= TERMS
    assert terms[0] == "=id_0"
    assert search_text("a_" * 300).terms == (f"={'a_' * 300}"[:TERM_CHARACTERS],)
    assert len(search_text("word " * 20_000).text) == SEARCHED_CHARACTERS
    assert len(search_text("\ufdfa" * 20_000).text) == SEARCHED_CHARACTERS


HOSTILE = [
    "a" * 100_000,
    "a.a.a.a" * 15_000,
    "1" * 100_000,
    "1,2," * 25_000,
    "a/" * 50_000,
    "a@" * 50_000,
    "漢" * 100_000,
    "\u0301\u0323" * 50_000,
    "https://" * 12_500,
    "https://a " * 10_000,
    "2023 " * 20_000,
    "May 2023 " * 11_000,
    "01/01/2023" * 10_000,
    "last " * 20_000,
    "two days ago " * 8_000,
    "thank you " * 10_000,
    "\ufdfa" * 100_000,
    " " * 100_000,
    "Ada " * 25_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_hostile_text_takes_no_longer_than_its_length(text: str) -> None:
    started = time.perf_counter()
    found = message_search_text(Message(role="user", content=text * 2), MONDAY)
    assert time.perf_counter() - started < 1
    assert len(found.terms) <= TERMS


WRITTEN = st.text() | st.text("a1.,-_/\\@#: =\n\0\ud800東กّ", max_size=60) | st.sampled_from(HOSTILE)


@given(text=WRITTEN, name=st.none() | st.text(max_size=20), day=st.none() | st.dates())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_every_list_of_terms_is_a_tsvector(
    connection: "asyncpg.Connection[asyncpg.Record]", text: str, name: str | None, day: date | None
) -> None:
    found = message_search_text(Message(role="user", name=name, content=text), day)
    assert len(found.terms) == len(set(found.terms)) <= TERMS
    assert all(0 < len(term) <= TERM_CHARACTERS for term in found.terms)
    assert not any(character.isspace() for term in found.terms for character in term)
    stored = await connection.fetchval(
        "select length(array_to_tsvector($1::text[]) || to_tsvector('english', $2::text))",
        list(found.terms),
        found.text,
    )
    assert stored >= len(found.terms)
