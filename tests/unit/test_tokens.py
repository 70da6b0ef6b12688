import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_context import tokens
from durable_context.artifacts.media_tokens import (
    IMAGE_TOKENS,
    LOW_DETAIL_IMAGE_TOKENS,
    PART_TOKENS,
)
from durable_context.models import Message, ToolCall
from durable_context.text import section
from durable_context.tokens import (
    CONTENT_WITH_CALLS_OVERHEAD,
    ENCODINGS,
    MESSAGE_OVERHEAD,
    PARALLEL_CALLS_OVERHEAD,
    TOOL_CALL_OVERHEAD,
    TokenCounter,
    token_counter,
)

SAMPLES = (
    "Hello, world! It's 2024-05-20; we'll pay $1,234.56 to o'neil@example.com.",
    "Größe über Straße, l'été, ¿mañana? 東京タワー 한국어 العربية 🙂👩‍👩‍👧",
    "def f(x):\n\treturn {'a': [1, 2, 3]}  # trailing   \r\n\r\n    indented\n\n\n",
    "<|endoftext|> and <|fim_prefix|> are only text here",
)
# Characters that the encodings' splitting patterns treat in their own way.
AWKWARD = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            " \n\r\t\x0b\x0c\x1c\x1f\x85\xa0\u2028\u2029\u200b\u200d\u0301\ufeff/'’\"sStmdlvre"
        ),
        st.sampled_from(".,;:!?()[]<>|-#_*0123456789abcXYZ汉éß🙂ʼ\x00"),
        st.characters(),
    ),
    max_size=60,
)
STARTS = st.sampled_from("[-#<abcdlmrstvzABCDLMRSTVZ")


@pytest.fixture(params=ENCODINGS)
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    return token_counter(request.param)


@pytest.mark.parametrize("name", ENCODINGS)
def test_counts_are_those_of_tiktokens_own_encoding(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(tokens.vocabulary(name))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    theirs, ours = tiktoken.get_encoding(name), tokens.encoding_of(name)
    assert ours.special_tokens_set == theirs.special_tokens_set
    assert ours.n_vocab == theirs.n_vocab
    for sample in SAMPLES:
        assert ours.encode_ordinary(sample) == theirs.encode_ordinary(sample)
        assert token_counter(name).count(sample) == len(theirs.encode_ordinary(sample))


def test_counting_needs_no_network_and_no_cache_directory(tmp_path: Path) -> None:
    program = """
import socket
def refuse(*args, **kwargs):
    raise AssertionError("the network was used")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from durable_context.tokens import ENCODINGS, token_counter
assert [token_counter(name).count("hello world") for name in ENCODINGS] == [2, 2]
"""
    environment = os.environ | {"TIKTOKEN_CACHE_DIR": str(tmp_path / "absent")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    assert not (tmp_path / "absent").exists()


def test_importing_loads_no_vocabulary() -> None:
    program = (
        "from durable_context import tokens; tokens.token_counter('o200k_base');"
        "assert not tokens.loaded_encodings(); tokens.token_counter('o200k_base').count('a');"
        "assert tokens.loaded_encodings() == ('o200k_base',)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_many_threads_load_a_vocabulary_once() -> None:
    program = """
import threading
from durable_context import tokens
barrier = threading.Barrier(8)
found = []
def load():
    barrier.wait()
    found.append(tokens.encoding_of("cl100k_base"))
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 8 and len(set(map(id, found))) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_damaged_vocabulary_is_refused() -> None:
    raw = tokens.vocabulary("cl100k_base")
    expected = hashlib.sha256(raw).hexdigest()
    assert tokens.verified(raw, expected) == raw
    with pytest.raises(ValueError, match=expected):
        tokens.verified(raw.replace(b"IQ==", b"Ig==", 1), expected)


def test_an_unknown_encoding_is_named_with_those_allowed() -> None:
    with pytest.raises(ValueError, match=r"'p50k_base'.*cl100k_base.*o200k_base"):
        token_counter("p50k_base")


def test_text_of_special_tokens_counts_as_text(counter: TokenCounter) -> None:
    assert counter.count("<|endoftext|>") > 3
    assert counter.count("") == 0


def test_nul_bytes_and_lone_surrogates_are_counted(counter: TokenCounter) -> None:
    assert counter.count("a\0b") > 1
    assert counter.count("\ud83d") >= 1
    assert counter.count("x\udfff y") >= 3


def test_a_megabyte_of_white_space_is_counted(counter: TokenCounter) -> None:
    """The encoder itself overflows its stack on this."""
    assert 1_000 < counter.count(" " * 1_000_000) < 20_000
    assert 1_000 < counter.count("\t\n" * 500_000) < 1_000_000


@settings(max_examples=300, deadline=None)
@given(STARTS, AWKWARD, STARTS, AWKWARD)
def test_counts_of_sections_add_up(start: str, inner: str, next_start: str, rest: str) -> None:
    first, second = section(start + inner), section(next_start + rest)
    for name in ENCODINGS:
        count = token_counter(name).count
        assert count(first + second) == count(first) + count(second)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 10**7), st.sampled_from("aBdmstzS"), AWKWARD)
def test_a_turn_number_and_what_follows_it_add_up(number: int, start: str, inner: str) -> None:
    rest = f" {start}{inner}"
    for name in ENCODINGS:
        count = token_counter(name).count
        for head in (f"[turn {number}]", f"- [turn {number}]"):
            assert count(head + rest) == count(head) + count(rest)


def test_a_message_costs_its_parts_and_its_overhead(counter: TokenCounter) -> None:
    plain = Message(role="user", content="hello world")
    assert counter.count_message(plain) == MESSAGE_OVERHEAD + 1 + 2
    named = plain.model_copy(update={"name": "ada"})
    assert counter.count_message(named) == counter.count_message(plain) + counter.count("ada") + 1
    call = ToolCall(id="call_1", name="get_user", arguments='{"id": "mia_li_3668"}')
    each = sum(map(counter.count, (call.id, call.name, call.arguments))) + TOOL_CALL_OVERHEAD
    calling = Message(role="assistant", tool_calls=(call,))
    assert counter.count_message(calling) == MESSAGE_OVERHEAD + 1 + each
    saying = calling.model_copy(update={"content": "hello world"})
    said = 2 + CONTENT_WITH_CALLS_OVERHEAD
    assert counter.count_message(saying) == counter.count_message(calling) + said
    several = calling.model_copy(update={"tool_calls": (call, call)})
    wrapped = each + PARALLEL_CALLS_OVERHEAD
    assert counter.count_message(several) == counter.count_message(calling) + wrapped


def test_parts_that_are_no_text_are_estimated_high(counter: TokenCounter) -> None:
    def cost(*parts: dict[str, object]) -> int:
        return counter.count_message(Message(role="user", content=parts)) - MESSAGE_OVERHEAD - 1

    assert cost({"type": "text", "text": "hello world"}) == 2
    assert cost({"type": "image_url", "image_url": {"url": "https://a/b.png"}}) == IMAGE_TOKENS
    low = {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}}
    assert cost(low) == LOW_DETAIL_IMAGE_TOKENS
    audio = {"type": "input_audio", "input_audio": {"data": "A" * 32_000, "format": "wav"}}
    assert cost(audio) >= PART_TOKENS + 2_000


def test_tool_schemas_cost_at_least_their_text(counter: TokenCounter) -> None:
    schema = {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Books a flight.",
            "parameters": {"type": "object", "properties": {"größe": {"type": "string"}}},
        },
    }
    assert counter.count_tools([]) == 0
    once = counter.count_tools([schema])
    assert once > counter.count("book Books a flight. object größe string")
    assert counter.count_tools([schema, schema]) == 2 * once


@settings(max_examples=200, deadline=None)
@given(AWKWARD, st.integers(0, 20))
def test_truncation_keeps_a_beginning_within_the_limit(text: str, limit: int) -> None:
    for name in ENCODINGS:
        counter = token_counter(name)
        kept = counter.truncate(text, limit)
        assert counter.count(kept) <= limit
        assert counter.fits(text, limit) == (counter.count(text) <= limit)
        if not any("\ud800" <= character <= "\udfff" for character in text):
            assert text.startswith(kept)
            assert kept == text or counter.count(text) > limit


def test_truncation_never_leaves_half_a_character(counter: TokenCounter) -> None:
    text = "👩‍👩‍👧🙂汉字" * 20
    for limit in range(1, 60):
        assert text.startswith(counter.truncate(text, limit))


def test_truncating_a_long_text_does_not_read_all_of_it(counter: TokenCounter) -> None:
    assert counter.truncate("word " * 2_000_000, 10) == counter.truncate("word " * 100, 10)


def test_threads_may_count_at_the_same_time(counter: TokenCounter) -> None:
    with ThreadPoolExecutor(4) as pool:
        counts = set(pool.map(counter.count, ["the same text " * 200] * 16))
    assert len(counts) == 1
