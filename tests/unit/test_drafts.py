"""Which drafts may be published and which not, and that checking changes a good one only once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_context.errors import InvalidDraft
from durable_context.summarizers import Attempt, SummaryDraft
from durable_context.summarizers.drafts import check_draft
from durable_context.summarizers.limits import TINY, input_tokens
from tests.segments import COUNTER, booking, leaf, said

REQUEST = leaf(booking() + booking(7), max_tokens=100)
GOOD = (
    "The user booked HAT136 from New York to Seattle for May 20th (reservation ZX81QL) and paid $21"
    " by credit card. The first booking failed: the payment amount did not add up. Open: whether"
    " to add a checked bag for $35, which is possible until three hours before departure."
)


def draft(text: str = GOOD, headline: str = "Flight to Seattle booked") -> SummaryDraft:
    attempts = (Attempt(made_by="model/x/1", outcome="ok", input_tokens=900, output_tokens=60),)
    return SummaryDraft(headline=headline, text=text, made_by="model/x/1", attempts=attempts)


def test_a_good_draft_stays_as_it_is() -> None:
    assert check_draft(draft(), REQUEST) == draft()


def test_input_size_and_counter_can_be_given() -> None:
    size = COUNTER.count(draft().headline) + COUNTER.count(GOOD)
    assert size > TINY
    assert check_draft(draft(), REQUEST, input_tokens=size + 1, counter=COUNTER) == draft()
    with pytest.raises(InvalidDraft, match="not less than the input's"):
        check_draft(draft(), REQUEST, input_tokens=size, counter=COUNTER)


REFUSED = {
    "empty": "",
    "white space": " \n\t ",
    "punctuation": "…",
    "error": "Error: the model is overloaded, try again later",
    "exception": "ValueError: invalid literal for int() with base 10",
    "status": "502 Bad Gateway",
    "api error": "Error code: 429 - {'error': {'message': 'Rate limit reached'}}",
    "rate limit": "Rate limit reached for gpt-4o in organization org-1 on tokens per min.",
    "quota": "You exceeded your current quota, please check your plan and billing details.",
    "context length": "This model's maximum context length is 8192 tokens.",
    "browser": "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
    "timeout": "Request timed out.",
    "connection": "Connection error.",
    "nothing there": "No content to summarize.",
    "no conversation": "No conversation was provided.",
    "empty conversation": "The conversation is empty.",
    "failed": "Failed to generate a summary due to an internal problem.",
    "placeholder": "N/A",
    "null": "null",
    "html": "<!DOCTYPE html><html><head><title>504 Gateway Time-out</title></head></html>",
    "xml": '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
    "json error": '{"error": {"message": "internal error", "type": "server_error"}}',
    "json": '{"headline": "Flight booked", "text": "The user booked a flight."}',
    "half a json": '{"headline": "Flight booked", "text": "The user',
    "trace": 'Traceback (most recent call last):\n  File "x.py", line 3, in f\nKeyError: 1',
    "java trace": "java.lang.X\n\tat a.b.C.d(C.java:1)\n\tat a.b.E.f(E.java:2)\n\tat a.G.h(G:3)",
    "refusal": "I'm sorry, I can't help with that request.",
    "typographic refusal": "I’m sorry, but I can’t assist with that.",
    "cannot": "I cannot summarize this conversation because it contains private data.",
    "as an ai": "As an AI language model, I do not have access to the conversation.",
    "refusal in german": "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "refusal in japanese": "申し訳ありませんが、そのリクエストにはお答えできません。",
    "chat": "Sure! Your flight HAT136 is booked, is there anything else I can do for you?",
    "greeting": "Hello! How can I help you with your booking today?",
    "asks for input": "Please provide the conversation you would like me to summarize.",
    "offers help": "Let me know if you need anything else with your booking.",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_is_no_summary_is_refused(text: str) -> None:
    with pytest.raises(InvalidDraft) as refused:
        check_draft(draft(text), REQUEST)
    assert refused.value.attempts == draft().attempts
    assert "model/x/1" in str(refused.value)
    assert text[:20].strip() not in str(refused.value) or len(text.strip()) < 6


ABOUT_ERRORS = [
    "The user saw `Error: EACCES` on npm install. The assistant changed the folder's owner.",
    "Error handling in the payment module was rewritten: a 429 is retried after 2 s, a 401 is not.",
    "Rate limit errors: the user hit 429 on the search API; the assistant added a backoff of 2 s.",
    "500 orders were imported from orders.csv; 12 failed with 'invalid SKU' and were skipped.",
    "404 pages of docs/ were fixed by the assistant: the base path was missing in mkdocs.yml.",
    "Failed deployment of api-7: the user rolled back to v1.4.2; cause was a missing DATABASE_URL.",
    "Timeouts between api and redis were traced to net::ERR_CONNECTION_RESET in the proxy.",
    "Hi-fi speakers were compared; the user chose the KEF Q150 for $449.",
    "Sorry was said twice by the assistant for the late refund of $105, which is now on its way.",
    "[turn 3] User: I'm sorry, I can't find my reservation ID.\nAssistant: It is ZX81QL.",
    "[turn 1] (2024-05-15) User: Error: net::ERR_FAILED\nAssistant: The server was down.",
    "None of the three fixes worked: the test test_login still fails with KeyError: 'sid'.",
    "The user pasted a trace:\nTraceback (most recent call last):\nand asked why; cause: no sid.",
    "Der Nutzer meldete einen Fehler 500 beim Speichern der Rechnung RE-815; Ursache: kein Platz.",
]


@pytest.mark.parametrize("text", ABOUT_ERRORS)
def test_a_conversation_about_errors_can_be_summarized(text: str) -> None:
    assert check_draft(draft(text), REQUEST).text == text


def test_a_preamble_is_taken_off() -> None:
    text = f"Sure! Here is a concise summary of the conversation:\n\n{GOOD}"
    assert check_draft(draft(text), REQUEST).text == GOOD


@pytest.mark.parametrize("headline", ["", "  ", "…", "---"])
def test_a_draft_without_a_headline_is_refused(headline: str) -> None:
    with pytest.raises(InvalidDraft, match="no headline"):
        check_draft(draft(headline=headline), REQUEST)


def test_a_headline_becomes_one_line_within_its_cap() -> None:
    checked = check_draft(draft(headline="Flight\nbooked " + "and paid " * 60), REQUEST)
    assert "\n" not in checked.headline
    assert COUNTER.count(checked.headline) <= REQUEST.headline_max_tokens


def test_a_text_a_little_over_its_cap_is_cut_at_a_sentence() -> None:
    sentences = [f"Ship number {n} left the port of Rotterdam for Oslo on time." for n in range(8)]
    text = " ".join(sentences)
    cap = COUNTER.count(text) - 5
    request = REQUEST.model_copy(update={"max_tokens": cap})
    assert check_draft(draft(text), request).text == " ".join(sentences[:-1])


def test_lines_are_kept_when_a_text_is_cut() -> None:
    lines = [f"[turn {n}] User: Ship number {n} left the port of Oslo." for n in range(8)]
    text = "\n".join(lines)
    request = REQUEST.model_copy(update={"max_tokens": COUNTER.count(text) - 5})
    assert check_draft(draft(text), request).text.splitlines()[:7] == lines[:7]


def test_a_text_far_over_its_cap_is_refused() -> None:
    with pytest.raises(InvalidDraft, match="far more than the 100 asked for"):
        check_draft(draft(GOOD * 5), REQUEST)


def test_a_draft_as_large_as_its_input_is_refused() -> None:
    request = leaf([said(1, "Book HAT136 to Seattle for me please. " * 4, "It is booked. " * 6)])
    text = " ".join(f"The user booked flight number {n}." for n in range(11))
    assert input_tokens(request) > TINY
    with pytest.raises(InvalidDraft, match="not less than the input's"):
        check_draft(draft(text), request)


def test_a_tiny_input_may_have_a_summary_of_its_own_size() -> None:
    request = leaf([said(n, "ok", "ok") for n in range(1, 4)])
    assert input_tokens(request) < TINY
    text = "The user and the assistant said ok to each other in each of the three turns."
    assert check_draft(draft(text), request).text == text


def test_what_is_published_is_clean_and_redacted() -> None:
    text = f"{GOOD} The key is ghp_0123456789abcdefghijABCDEFGHIJ012345.\0 </conversation-record>"
    checked = check_draft(draft(text, "With password=hunter2"), REQUEST)
    assert "ghp_" not in checked.text
    assert "\0" not in checked.text
    assert "</conversation-record>" not in checked.text
    assert checked.headline == "With password=[redacted: password]"


WORDS = st.sampled_from(
    [*GOOD.split(), "Error:", "\n", "[turn 3]", "password=hunter2", "Sure!", "Here is a summary:"]
)


@given(st.lists(WORDS, max_size=120).map(" ".join), st.text(max_size=80))
def test_checking_twice_changes_nothing_more(text: str, headline: str) -> None:
    try:
        checked = check_draft(draft(text, headline), REQUEST)
    except InvalidDraft:
        return
    assert check_draft(checked, REQUEST) == checked
