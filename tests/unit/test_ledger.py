import json
import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.models import LedgerEntry, LedgerKind, Message, ToolCall
from durable_context.tokens import ENCODINGS, token_counter
from durable_context.turns.ledger import (
    ENTRIES_PER_TURN,
    cap_ledger,
    ledger_line,
    ledger_of,
    merge_ledgers,
    missing_from,
)

COUNTER = token_counter("o200k_base")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(text: str | None, *calls: ToolCall) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def called(call_id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments))


def result(call_id: str, text: str, *, synthetic: bool = False) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text, synthetic=synthetic)


def facts(*messages: Message) -> set[tuple[LedgerKind, str]]:
    return {(entry.kind, entry.value) for entry in ledger_of(messages)}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("My user id is mia_li_3668.", "identifier", "mia_li_3668"),
        ("Take flight HAT083, please", "identifier", "HAT083"),
        ("Reservation **HATHAT** it is", "identifier", "HATHAT"),
        ("see (#12345)", "identifier", "#12345"),
        ("order 4421486", "identifier", "4421486"),
        ("ticket: JIRA-4711!", "identifier", "JIRA-4711"),
        ("订单号A1234567需要退款", "identifier", "A1234567"),
        (
            "id=550e8400-e29b-41d4-a716-446655440000",
            "identifier",
            "550e8400-e29b-41d4-a716-446655440000",
        ),
        ("at commit 9fceb02.", "identifier", "9fceb02"),
        ("host 10.0.0.1:8080", "identifier", "10.0.0.1:8080"),
        ("call +1-555-123-4567", "identifier", "+1-555-123-4567"),
        ("write to <bob.o'neil+x@ex-ample.co.uk>.", "email", "bob.o'neil+x@ex-ample.co.uk"),
        ("(https://a.example.com/b/c?x=1&y=2#z).", "url", "https://a.example.com/b/c?x=1&y=2#z"),
        ("open /etc/nginx/nginx.conf,", "path", "/etc/nginx/nginx.conf"),
        ("in `src/app/main.py:42`", "path", "src/app/main.py:42"),
        ("the README.md says", "path", "README.md"),
        ("C:\\Users\\bob\\x.txt is gone", "path", "C:\\Users\\bob\\x.txt"),
        ("we run v1.2.3-rc1 now", "version", "v1.2.3-rc1"),
        ("on Python 3.11.", "version", "Python 3.11"),
        ("pin requests==2.31.0", "version", "requests==2.31.0"),
        ("a ValueError came", "error", "ValueError"),
        ("it said ENOENT", "error", "ENOENT"),
        ("with HTTP 404.", "error", "HTTP 404"),
        ("and exit code 2", "error", "exit code 2"),
        ("pay $1,234.56.", "amount", "$1,234.56"),
        ("es kostet 1.299,00 €", "amount", "1.299,00 €"),
        ("needs 12 GB", "amount", "12 GB"),
        ("on 2024-05-20T10:00:00Z", "date", "2024-05-20T10:00:00Z"),
        ("by May 20th, 2024", "date", "May 20th, 2024"),
        ("bis zum 3. Mai", "date", "3. Mai"),
        ("于2024年5月3日", "date", "2024年5月3日"),
        ("not before 11 AM", "date", "11 AM"),
    ],
)
def test_facts_are_found_in_what_the_user_says(text: str, kind: LedgerKind, value: str) -> None:
    assert (kind, value) in facts(user(text))


@pytest.mark.parametrize(
    "text",
    [
        "The 2nd and the 21st, at 10x speed, in utf-8, item2 of 3",
        "PLEASE DO NOT SHOUT AT ME, I CAN HEAR YOU, STOP IT NOW, REALLY, THANKS",
        "credit_card is a word, so are well-known and up-to-date",
        "What do you think about that? It is always nice to talk.",
        "",
    ],
)
def test_ordinary_words_are_no_facts(text: str) -> None:
    assert not facts(user(text), assistant(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("We decided to use PostgreSQL.", "decision"),
        ("Let's go with the second one.", "decision"),
        ("I'll use my other card.", "decision"),
        ("Wir nehmen die kleinere.", "decision"),
        ("我们决定用这个。", "decision"),
        ("I don't want to fly in the morning.", "decision"),
        ("TODO: renew the certificate.", "open item"),
        ("Remind me to call the bank.", "open item"),
        ("Next step: deploy.", "open item"),
        ("We are still waiting for Anna.", "open item"),
        ("Das muss noch geprüft werden.", "open item"),
    ],
)
def test_decisions_and_open_items_are_sentences_with_a_cue(text: str, kind: LedgerKind) -> None:
    assert (kind, text) in facts(user(f"Hello again. {text} The weather is fine."))


def test_a_question_decides_nothing() -> None:
    assert not facts(assistant("Shall we say that we decided to use it?"))


def test_calls_that_changed_something_are_kept_with_their_arguments() -> None:
    found = facts(
        assistant(
            None,
            called("1", "get_user", id="mia_li_3668"),
            called("2", "cancel_order", order_id="AB-17", reason="late", items=[{"sku": 5}]),
            called("3", "book", flight="HAT083"),
            called("4", "deploy", env="prod"),
            called("5", "bash", command="ls -la /srv/app"),
            called("6", "bash", command="rm -r /srv/old"),
        ),
        result("1", "{}"),
        result("2", "done"),
        result("3", "Error: no seats left"),
        result("4", "never came", synthetic=True),
        result("5", "a b c"),
        result("6", ""),
    )
    assert {value for kind, value in found if kind == "call"} == {
        "cancel_order(order_id=AB-17, reason=late, sku=5)",
        "bash(command=rm -r /srv/old)",
    }
    assert ("error", "book: Error: no seats left") in found


def test_what_the_user_names_outweighs_what_is_buried_in_a_result() -> None:
    listing = json.dumps([{"flight": f"HAT{i:03d}", "seats": i} for i in range(300)])
    entries = ledger_of(
        [
            user("My order is ZZ-99."),
            assistant(None, called("1", "search", query="flights to XK-5")),
            result("1", listing),
            assistant("Here they are."),
        ]
    )
    assert {entry.value for entry in entries[:2]} == {"ZZ-99", "XK-5"}
    assert 0 < sum(entry.value.startswith("HAT") for entry in entries) <= 12
    assert entries[0].mentions > entries[-1].mentions


def test_people_and_codes_in_json_are_facts() -> None:
    found = facts(
        assistant(None, called("1", "get_booking", id="YAX4DR")),
        result(
            "1", '{"first_name": "Noah", "last_name": "Li", "origin": "BOS", "cabin": "economy"}'
        ),
    )
    assert {("identifier", "Noah Li"), ("identifier", "BOS")} <= found


def test_facts_in_escaped_json_strings_are_whole() -> None:
    text = json.dumps({"note": "first\nAB-17\tßx9-Ü in C:\\new\\x.txt"})
    found = facts(assistant(None, called("1", "get_note")), result("1", text))
    assert found == {
        ("identifier", "AB-17"),
        ("identifier", "ßx9-Ü"),
        ("path", "C:\\new\\x.txt"),
    }


def test_a_fact_is_listed_once_whatever_its_case_and_counted() -> None:
    entries = ledger_of([user("Bob@Example.com"), assistant("I wrote to bob@example.com.")])
    assert [(entry.value, entry.mentions) for entry in entries] == [("Bob@Example.com", 3)]


def test_values_are_short_clean_single_lines() -> None:
    long = "We decided to " + "go on and on " * 25 + "."
    arguments = {"note": "x\n<conversation-record> y\0" * 40, "id": "汉" * 400}
    entries = ledger_of(
        [user(long), assistant(None, called("1", "write", **arguments)), result("1", "done")]
    )
    assert {entry.kind for entry in entries} == {"decision", "call"}
    for entry in entries:
        assert COUNTER.count(entry.value) <= 90
        assert entry.value == " ".join(entry.value.split())
        assert "<conversation-record" not in entry.value
        assert "\0" not in entry.value


def test_lines_name_the_kind_where_the_value_does_not_tell() -> None:
    assert ledger_line("email", "a@b.c") == "- a@b.c\n"
    assert ledger_line("decision", "Use the new card.") == "- decision: Use the new card.\n"


def test_words_that_end_in_a_digit_and_choices_are_facts() -> None:
    text = '{"reservations": ["UDMOP1"], "trip_type": "round_trip", "note": "two words"}'
    values = [
        entry.value for entry in ledger_of([assistant(None, called("1", "get")), result("1", text)])
    ]
    assert "UDMOP1" in values
    assert "round_trip" in values
    assert "trip_type" not in values


KINDS: Sequence[LedgerKind] = ("identifier", "email", "call", "decision", "open item", "date")
ENTRIES = st.lists(
    st.builds(
        LedgerEntry,
        kind=st.sampled_from(KINDS),
        value=st.sampled_from(["A1", "a1", "b 2", "B  2", "c@d.e", "f" * 50]),
        turn_no=st.one_of(st.none(), st.integers(1, 30)),
        mentions=st.integers(1, 5),
    ),
    max_size=12,
).map(tuple)


def test_merging_sums_mentions_and_keeps_the_newest_turn() -> None:
    old = LedgerEntry(kind="identifier", value="ab17", turn_no=3, mentions=2)
    new = LedgerEntry(kind="identifier", value="AB17", turn_no=9, mentions=1)
    other = LedgerEntry(kind="date", value="ab17", turn_no=12)
    assert merge_ledgers([old], [new, other]) == (
        other,
        LedgerEntry(kind="identifier", value="AB17", turn_no=9, mentions=3),
    )


@given(ENTRIES, ENTRIES, ENTRIES)
def test_merging_does_not_depend_on_grouping_or_order(
    one: tuple[LedgerEntry, ...], two: tuple[LedgerEntry, ...], three: tuple[LedgerEntry, ...]
) -> None:
    merged = merge_ledgers(merge_ledgers(one, two), three)
    assert merged == merge_ledgers(one, merge_ledgers(two, three))
    assert merged == merge_ledgers(merge_ledgers(three, two), one)
    assert sum(entry.mentions for entry in merged) == sum(
        entry.mentions for entry in one + two + three
    )
    turns = [entry.turn_no or 10**9 for entry in merged]
    assert turns == sorted(turns, reverse=True)


@settings(deadline=None)
@given(ENTRIES, st.integers(0, 200), st.sampled_from(ENCODINGS))
def test_a_capped_ledger_is_within_its_cap_and_newest_first(
    entries: tuple[LedgerEntry, ...], cap: int, encoding: str
) -> None:
    counter = token_counter(encoding)
    merged = merge_ledgers(entries, ())
    kept = cap_ledger(merged, cap, counter)
    lines = [ledger_line(entry.kind, entry.value) for entry in kept]
    assert counter.count("".join(lines)) == sum(map(counter.count, lines)) <= cap
    assert list(kept) == [entry for entry in merged if entry in kept]
    shuffled = list(merged)
    random.Random(cap).shuffle(shuffled)
    assert cap_ledger(shuffled, cap, counter) == kept
    assert cap_ledger(merged, 10_000, counter) == merged


def test_a_capped_ledger_keeps_value_rather_than_luck() -> None:
    date = LedgerEntry(kind="date", value="11 AM", turn_no=50)
    call = LedgerEntry(kind="call", value="cancel_order(order_id=AB-17)", turn_no=48)
    often = LedgerEntry(kind="identifier", value="mia_li_3668", turn_no=40, mentions=9)
    once = LedgerEntry(kind="identifier", value="HAT001", turn_no=2)
    room = sum(COUNTER.count(ledger_line(fact.kind, fact.value)) for fact in (call, often))
    assert cap_ledger([date, call, often, once], room, COUNTER) == (call, often)


def test_what_the_text_says_is_not_missing_from_it() -> None:
    entries = [
        LedgerEntry(kind="identifier", value="HAT1"),
        LedgerEntry(kind="identifier", value="HAT12"),
        LedgerEntry(kind="amount", value="$55"),
        LedgerEntry(kind="decision", value="We use  it"),
    ]
    text = "Booked hat12 for ($55); we\nuse it. AHAT1 HAT1x"
    assert [entry.value for entry in missing_from(entries, text)] == ["HAT1"]


@settings(deadline=None)
@given(st.lists(st.one_of(st.text(), st.from_regex(r"[\w@./:#-]{1,40}")), max_size=6))
def test_any_text_gives_lines_that_add_up(texts: list[str]) -> None:
    entries = ledger_of([message for text in texts for message in (user(text), assistant(text))])
    lines = [ledger_line(entry.kind, entry.value) for entry in entries]
    assert len(entries) <= ENTRIES_PER_TURN
    assert all(line.count("\n") == 1 and line == line.rstrip() + "\n" for line in lines)
    for name in ENCODINGS:
        count = token_counter(name).count
        assert count("".join(lines)) == sum(map(count, lines))


def test_hostile_tokens_take_bounded_time() -> None:
    endings = ("a1_" * 18, "a1." * 18, "/a1" * 18, "1.1" * 18, "a_1_" * 14, "1-" * 28, "A1" * 28)
    words = (f"{ending}{i}%$" for ending in endings for i in range(30))
    start = time.perf_counter()
    ledger_of([user(" ".join(words))])
    assert time.perf_counter() - start < 5


PIECES = (
    *("a", "1", "a_", ".", "/a", "a@", "a.", "1-", '"a', "http://", "Error: ", "汉。", "\ud800"),
    *("todo ", "let's use x. ", "- a\n", "E", "A ", "May 1 ", "$1", "1 ", "_", "A1 ", "::", "(A"),
)


@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    ledger_of([user(text), assistant(text, called("1", "f", x=text)), result("1", text)])
    assert time.perf_counter() - start < 5
