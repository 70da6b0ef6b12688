import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_context.dates import resolve_dates

MONDAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I went yesterday.", "I went yesterday (2023-05-07)."),
        ("Yesterday's run", "Yesterday's (2023-05-07) run"),
        ("the day before yesterday", "the day before yesterday (2023-05-06)"),
        ("this morning, tomorrow", "this morning (2023-05-08), tomorrow (2023-05-09)"),
        ("last Friday", "last Friday (2023-05-05)"),
        ("last Monday", "last Monday (2023-05-01)"),
        ("this Friday", "this Friday (2023-05-12)"),
        ("next Monday", "next Monday (2023-05-15)"),
        ("next Friday", "next Friday (2023-05-12 or 2023-05-19)"),
        ("two days ago", "two days ago (2023-05-06)"),
        ("3 weeks ago", "3 weeks ago (week of 2023-04-17)"),
        ("six months ago", "six months ago (November 2022)"),
        ("a year ago", "a year ago (2022)"),
        ("last week, next week", "last week (week of 2023-05-01), next week (week of 2023-05-15)"),
        ("last weekend", "last weekend (weekend of 2023-05-06)"),
        ("last month", "last month (April 2023)"),
        ("next year", "next year (2024)"),
    ],
)
def test_english_dates_are_resolved_no_finer_than_said(text: str, expected: str) -> None:
    assert resolve_dates(text, MONDAY) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Ich war gestern dort und letzten Freitag, vor zwei Tagen.",
            "Ich war gestern (2023-05-07) dort und letzten Freitag (2023-05-05),"
            " vor zwei Tagen (2023-05-06).",
        ),
        ("Guten Morgen, wir sind morgen da.", "Guten Morgen, wir sind morgen (2023-05-09) da."),
        ("Wir machen das nächste Woche.", "Wir machen das nächste Woche (week of 2023-05-15)."),
        (
            "Je suis allé hier avec une amie, il y a trois jours.",
            "Je suis allé hier (2023-05-07) avec une amie, il y a trois jours (2023-05-05).",
        ),
        (
            "C'est pour la semaine prochaine et lundi dernier.",
            "C'est pour la semaine prochaine (week of 2023-05-15) et lundi dernier (2023-05-01).",
        ),
        (
            "Ayer fui con mi hermana; la semana pasada no.",
            "Ayer (2023-05-07) fui con mi hermana; la semana pasada (week of 2023-05-01) no.",
        ),
    ],
)
def test_other_languages_are_resolved(text: str, expected: str) -> None:
    assert resolve_dates(text, MONDAY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "yesterday (2023-05-07)",
        "last Friday, May 5",
        "yesterday, 7 May 2023",
        "last week (week of 2023-05-01)",
        "/var/yesterday/today.log and my-today-list",
        "Das ist der Stand hier und dort.",
        "3000 years ago",
        "a few days ago",
        "",
    ],
)
def test_text_that_needs_no_date_is_left_alone(text: str) -> None:
    assert resolve_dates(text, MONDAY) == text


@given(st.lists(st.sampled_from(["last ", "Friday", " yesterday", ", ", "(", "a", "\n", "May 1"])))
def test_resolving_twice_changes_nothing_more(words: list[str]) -> None:
    once = resolve_dates("".join(words), MONDAY)
    assert resolve_dates(once, MONDAY) == once


def test_the_first_and_last_days_of_the_calendar_are_survived() -> None:
    assert resolve_dates("last year", datetime(1, 1, 1)) == "last year"
    assert resolve_dates("next week", datetime(9999, 12, 31)) == "next week"
    assert resolve_dates("yesterday", datetime(1, 1, 1)) == "yesterday"


@pytest.mark.parametrize("piece", ["last ", "yesterday ", "1 ", "a an ", "vor ", "(", "."])
def test_a_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    text = "today " + piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    resolve_dates(text, MONDAY)
    assert time.perf_counter() - start < 20
