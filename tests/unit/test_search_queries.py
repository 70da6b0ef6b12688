import time

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from durable_context.search_queries import (
    COARSE_WEIGHT,
    CONTEXT_WEIGHT,
    EXACT_WEIGHT,
    NOTHING,
    QUERY_CHARACTERS,
    QUERY_TERMS,
    SHORT_WEIGHT,
    TERM_WEIGHT,
    search_query,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "👍",
        "hi",
        "Hello! How are you?",
        "Dear all, good morning!",
        "thanks",
        "Thank you so much, that's great!",
        "Yes.",
        "no, thanks",
        "ok, go ahead please",
        "Great, that makes sense. Sounds good!",
        "continue",
        "Go on",
        "lol haha",
        "hmm",
        "You are so good",
        "really?",
        "Hallo! Guten Morgen.",
        "Danke, alles klar",
        "mach weiter bitte",
        "Bonjour, ça va ?",
        "merci, c'est bon",
        "s’il vous plaît",
        "Hola, buenos días",
        "vale, gracias",
        "grazie mille, perfetto",
        "Olá! Tudo bem? Obrigada",
        "dank je wel, prima",
        "你好",
        "好的，谢谢",
        "继续",
        "こんにちは。ありがとうございます",
        "はい",
        "안녕하세요",
        "네, 감사합니다",
    ],
)
def test_small_talk_asks_for_nothing(text: str) -> None:
    assert search_query(text) == NOTHING


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Hi Tim, please look at the kiln", "Tim, look at the kiln"),
        ("Great, that makes sense. What did the kiln cost?", "What did the kiln cost?"),
        ("Hello again! Thanks. And the hello world program?", "world program?"),
        ("Danke! Wo steht der Ofen?", "Wo steht der Ofen?"),
        ("Take care of the kiln", "Take care of the kiln"),
        ("How does it look in the great hall", "look hall"),
        ("What is in example.com, please?", "What is in example.com,"),
    ],
)
def test_small_talk_is_left_out_and_stop_words_stay(text: str, asked: str) -> None:
    assert search_query(text).text == asked


def test_a_greeting_within_writing_without_spaces_is_left_out() -> None:
    assert search_query("你好柏林天气").terms == ("柏林", "林天", "天气")
    assert search_query("好的，柏林天气").terms == ("柏林", "林天", "天气")


@pytest.mark.parametrize(
    ("text", "weighed"),
    [
        ("Where is ORD-4412?", {"=ord-4412": EXACT_WEIGHT, "=4412": EXACT_WEIGHT}),
        ("HTTP 503 in x.py", {"=503": EXACT_WEIGHT, "=x.py": EXACT_WEIGHT}),
        ("did we meet in 2023", {"=2023": TERM_WEIGHT}),
        (
            "what happened on 25 May, 2023?",
            {"=2023-05-25": TERM_WEIGHT, "=2023-05": COARSE_WEIGHT, "=2023": COARSE_WEIGHT},
        ),
        (
            "on 2023-05-08?",
            {"=2023-05-08": TERM_WEIGHT, "=2023-05": COARSE_WEIGHT, "=2023": COARSE_WEIGHT},
        ),
        ("京都の", {"京都": TERM_WEIGHT, "都の": TERM_WEIGHT}),
        ("the blue kiln", {}),
    ],
)
def test_exact_terms_weigh_more_than_dates_and_pairs(text: str, weighed: dict[str, float]) -> None:
    query = search_query(text)
    assert dict(zip(query.terms, query.weights, strict=True)) == weighed


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("What did we do in May?", ("=--05",)),
        ("When in last August was it", ("=--08",)),
        ("what happened in june", ("=--06",)),
        ("in march or since March", ("=--03",)),
        ("on May 20th", ("=--05",)),
        ("der 8. Mai", ("=--05",)),
        ("qué pasó en mayo", ("=--05",)),
        ("on Jan 5", ("=--01",)),
        ("May I see the kiln?", ()),
        ("what may be in the kiln", ()),
        ("in may", ()),
        ("the long march to Mars", ()),
        ("Jan and Mar said", ()),
    ],
)
def test_a_month_alone_is_that_of_any_year(text: str, terms: tuple[str, ...]) -> None:
    assert search_query(text).terms == terms


@pytest.mark.parametrize(
    "text",
    [
        "why?",
        "and the second one?",
        "what about Berlin?",
        "do it again",
        "Not that one",
        "And in 2023?",
        "what was that?",
        "Tell me about the second option",
        "How did the old kiln explode after that?",
        "Is the other brand of clay better",
        "What color was it painted afterwards",
        "Und der zweite?",
        "warum?",
        "aber wie viel kostet der große Ofen?",
        "Was hat Tim damals damit gebaut",
        "et Berlin ?",
        "¿Y el segundo?",
        "第二个呢？",
        "那柏林的天气呢",
        "그럼 베를린 날씨는?",
    ],
)
def test_a_short_or_elliptical_message_leans_on_what_was_said_before(text: str) -> None:
    assert search_query(text).context_weight in (CONTEXT_WEIGHT, SHORT_WEIGHT)


@pytest.mark.parametrize(
    "text",
    [
        "What books has Tim read?",
        "When did Caroline go to the support group?",
        "Where is ORD-4412?",
        "The book that Tim read on the long train ride",
        "And which of the four kilns did Tim, Ada and Grace buy in Rome with their savings?",
        "Welche Bücher hat Tim in Rom gelesen?",
        "En qué ciudad compró Tim los libros rojos",
        "柏林的天气怎么样明天会下雨吗",
        "Thanks!",
    ],
)
def test_a_message_that_says_it_all_stands_alone(text: str) -> None:
    assert search_query(text).context_weight == 0


def test_of_a_long_message_the_beginning_is_asked() -> None:
    query = search_query("kiln " * 10_000 + "ORD-4412")
    assert len(query.text) <= QUERY_CHARACTERS
    assert query.terms == ()


def test_a_pasted_log_asks_for_a_bounded_number_of_terms() -> None:
    query = search_query(" ".join(f"id_{number}" for number in range(1_000)))
    assert len(query.terms) == QUERY_TERMS


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 200_000, "a.a.a.a" * 30_000, "1,2," * 50_000, "hi, " * 50_000, "May 5 " * 30_000),
        *("the same " * 20_000, "漢" * 200_000, "\u0301\u0323" * 100_000, "thank you " * 20_000),
        *("https://a " * 20_000, "? " * 100_000, "so that " * 30_000, " " * 200_000),
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_messages_take_no_longer_than_their_length(text: str) -> None:
    started = time.perf_counter()
    search_query(text)
    assert time.perf_counter() - started < 1


WRITTEN = st.text() | st.text("hiokMay52.,-_/\\@#?: =\n\0\ud800東กّ", max_size=60)


@given(text=WRITTEN)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_every_query_has_terms_that_postgresql_takes(
    connection: "asyncpg.Connection[asyncpg.Record]", text: str
) -> None:
    query = search_query(text)
    assert len(query.terms) == len(query.weights) == len(set(query.terms))
    stored = await connection.fetchval(
        "select length(array_to_tsvector($1::text[])) + 0 * length(to_tsvector($2::text))",
        list(query.terms),
        query.text,
    )
    assert stored == len(query.terms)
