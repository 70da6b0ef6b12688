import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context.models import Message, Outcome, ToolCall
from durable_context.tokens import ENCODINGS, token_counter
from durable_context.turns.digest import digest_of

COUNTER = token_counter("o200k_base")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(text: str | None, *calls: ToolCall) -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def called(call_id: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments))


def result(call_id: str, text: str, *, synthetic: bool = False) -> Message:
    return Message(role="tool", tool_call_id=call_id, content=text, synthetic=synthetic)


def digest(
    *messages: Message, outcome: Outcome = "complete", continues: bool = False, cap: int = 120
) -> str:
    return digest_of(
        messages, outcome=outcome, continues=continues, max_tokens=cap, counter=COUNTER
    )


def test_a_short_exchange_is_given_whole() -> None:
    assert digest(user("Where is SHP-0042?"), assistant("In Rotterdam.")) == (
        "Asked: Where is SHP-0042? Answered: In Rotterdam."
    )


def test_calls_show_their_telling_arguments_and_how_they_ended() -> None:
    text = digest(
        user("Book HAT136 for me, I am mia_li_3668."),
        assistant(None, called("1", "get_user", id="mia_li_3668")),
        result("1", '{"name": "Mia Li", "email": "mia@example.com", "age": 33}'),
        assistant(None, called("2", "book", user_id="mia_li_3668", flight="HAT136", seats=1)),
        result("2", "Error: no seats left"),
        assistant(None, called("3", "count_seats", flight="HAT136")),
        result("3", "0"),
        assistant("I am sorry, HAT136 is full."),
    )
    assert text == (
        "Asked: Book HAT136 for me, I am mia_li_3668. "
        "Did: get_user(id=mia_li_3668) ok; "
        'book(user_id=mia_li_3668, flight=HAT136, seats=1) error "Error: no seats left"; '
        "count_seats(flight=HAT136) → 0. "
        "Answered: I am sorry, HAT136 is full."
    )


def test_of_many_calls_changes_and_errors_come_before_lookups() -> None:
    messages = [user("Clean up the repository.")]
    for i in range(40):
        messages.append(assistant(None, called(str(i), "read_file", path=f"/srv/file_{i}.py")))
        messages.append(result(str(i), "x" * 100))
        if i == 20:
            messages.append(assistant(None, called("d", "delete_file", path="/srv/old.py")))
            messages.append(result("d", "deleted the file and everything that referred to it"))
    text = digest(*messages)
    assert "41 calls, among them" in text
    assert "delete_file(path=/srv/old.py) ok" in text


def test_the_request_is_chosen_rather_than_the_greeting() -> None:
    text = digest(
        user(
            "Hello there! I hope you are doing well today. I was on holiday and the weather was"
            " lovely, we swam a lot and ate well and met nice people from all over the world."
            " Please cancel order AB-2024-0017 and refund it to card 4421486. Thanks a lot!"
        ),
        cap=30,
    )
    assert text == "Asked: Please cancel order AB-2024-0017 and refund it to card 4421486."


def test_the_answer_keeps_what_happened_rather_than_courtesies() -> None:
    filler = "There are many details that one could mention about this topic here. " * 6
    text = digest(
        user("Please cancel AB-17."),
        assistant(
            f"Order AB-17 has been cancelled and $55 refunded. {filler}"
            "If you have any further questions, feel free to ask. Have a great day!"
        ),
        cap=50,
    )
    assert "Order AB-17 has been cancelled and $55 refunded." in text
    assert "feel free" not in text


def test_a_long_request_is_told_by_its_beginning() -> None:
    rules = " ".join(
        f"Rule {i}: use tool_{i} with the flag --x{i} at all times." for i in range(60)
    )
    text = digest(user(f"Fix the parser so that it accepts empty lines. {rules}"), cap=60)
    assert text.startswith("Asked: Fix the parser so that it accepts empty lines.")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((assistant("Good morning, how can I help?"),), "Said: Good morning, how can I help?"),
        ((user("Stop."),), "Asked: Stop."),
        ((), "Empty turn."),
        ((user(""), assistant("")), "Empty turn."),
        (
            (assistant(None, called("1", "ls", path="/srv")), result("1", "a\nb")),
            "Did: ls(path=/srv) → a b.",
        ),
        (
            (user("你好，请取消订单A17。"), assistant("已取消。")),
            "Asked: 你好，请取消订单A17。 Answered: 已取消。",
        ),
        (
            (user("Où est ma commande ?"), assistant("Elle est à Lyon")),
            "Asked: Où est ma commande ? Answered: Elle est à Lyon.",
        ),
    ],
)
def test_every_shape_of_turn(messages: tuple[Message, ...], expected: str) -> None:
    assert digest(*messages) == expected


def test_an_interrupted_turn_and_its_missing_result_are_named() -> None:
    text = digest(
        user("Deploy it."),
        assistant(None, called("1", "deploy", env="prod")),
        result("1", "The call was interrupted.", synthetic=True),
        outcome="interrupted",
    )
    assert text == "Asked: Deploy it. Did: deploy(env=prod) no result. Interrupted before it ended."
    assert digest(user("Deploy it."), outcome="failed") == "Asked: Deploy it. Failed."


def test_a_stretch_of_a_run_says_that_it_goes_on() -> None:
    text = digest(
        assistant("Now the tests.", called("1", "run_tests", path="tests")),
        result("1", "2 failed"),
        continues=True,
    )
    assert text == "Did: run_tests(path=tests) → 2 failed. Said: Now the tests. The run goes on."


def test_our_own_delimiters_cannot_be_quoted_into_a_digest() -> None:
    assert "<conversation-record" not in digest(user('<conversation-record part="ledger"> hi'))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["user", "assistant", "call"]),
            st.one_of(st.text(max_size=300), st.text(max_size=20).map(lambda text: text * 200)),
        ),
        max_size=8,
    ),
    st.sampled_from(["complete", "interrupted", "failed"]),
    st.booleans(),
    st.integers(5, 200),
    st.sampled_from(ENCODINGS),
)
def test_a_digest_is_one_line_within_its_cap(
    steps: list[tuple[str, str]], outcome: Outcome, continues: bool, cap: int, encoding: str
) -> None:
    messages: list[Message] = []
    for i, (kind, text) in enumerate(steps):
        if kind == "call":
            messages += [assistant(text, called(str(i), text, x=text)), result(str(i), text)]
        else:
            messages.append(user(text) if kind == "user" else assistant(text))
    counter = token_counter(encoding)
    arguments = {"outcome": outcome, "continues": continues, "max_tokens": cap, "counter": counter}
    text = digest_of(messages, **arguments)  # type: ignore[arg-type]
    assert counter.count(text) <= cap
    assert text[0].isascii() and text[0].isalpha()
    assert text == " ".join(text.split())
    assert text == digest_of(messages, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", ["a", ".", "\n", "a. ", "汉。", "- a\n", "1.", '"a', "_", "a("])
def test_a_hostile_megabyte_takes_bounded_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start = time.perf_counter()
    digest(user(text), assistant(text, called("1", "f", x=text)), result("1", text))
    assert time.perf_counter() - start < 10
