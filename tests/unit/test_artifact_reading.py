"""Reading parts of an artifact."""

import base64
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_context.artifacts.contents import (
    COUNTED_WHOLE,
    count_tokens,
    decoded,
    encoded,
    pack,
    unpack,
)
from durable_context.artifacts.reading import ArtifactContent, count_lines, cut, is_text_type
from durable_context.errors import ArtifactDamaged, InvalidArgument
from durable_context.models import Artifact
from durable_context.tokens import token_counter

POEM = "Alpha\nbeta ALPHA\ngamma\n\nalphabet"


def artifact(media_type: str = "text/plain", line_count: int | None = None) -> Artifact:
    return Artifact(
        handle="art_" + "A" * 22,
        name="poem",
        version=1,
        media_type=media_type,
        size=1,
        sha256="0" * 64,
        token_count=1,
        line_count=line_count,
        width=None,
        height=None,
        turn_no=0,
        source="put",
        headline=None,
        summary=None,
        created_at=datetime(2026, 5, 4, tzinfo=UTC),
    )


def poem(**options: Any) -> ArtifactContent:
    return cut(artifact(), POEM.encode(), **options)


def test_without_arguments_the_content_is_whole():
    whole = poem()
    assert (whole.content, whole.from_line, whole.to_line) == (POEM, 1, 5)
    assert (whole.line_count, whole.matches) == (5, None)


def test_lines_are_counted_from_one():
    part = poem(start=2, length=2)
    assert (part.content, part.from_line, part.to_line) == ("beta ALPHA\ngamma", 2, 3)
    assert poem(start=4).content == "\nalphabet"
    assert poem(length=1).content == "Alpha"
    assert poem(start=5, length=99).to_line == 5


def test_beyond_the_end_there_is_nothing_and_the_line_count_tells():
    part = poem(start=6)
    assert (part.content, part.from_line, part.to_line, part.line_count) == ("", None, None, 5)
    assert poem(start=6, grep="a").matches == 0
    assert poem(start=10**30, length=10**30).content == ""


def test_matching_lines_bear_their_numbers_and_case_does_not_matter():
    part = poem(grep="aLpHa")
    assert part.content == "1: Alpha\n2: beta ALPHA\n5: alphabet"
    assert (part.matches, part.from_line, part.to_line) == (3, 1, 5)
    assert poem(grep="STRASSE").matches == 0
    assert cut(artifact(), "Große Straße".encode(), grep="STRASSE").matches == 1


def test_what_is_searched_for_is_text_and_no_pattern():
    assert poem(grep=".").matches == 0
    assert cut(artifact(), b"a.c\nabc", grep="a.c").content == "1: a.c"


def test_a_search_stays_within_the_lines_that_were_asked_for():
    assert poem(grep="alpha", start=2, length=3).content == "2: beta ALPHA"
    assert poem(grep="alpha", start=2).content == "2: beta ALPHA\n5: alphabet"


def test_nothing_but_a_line_feed_ends_a_line():
    text = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\r\ni"
    assert cut(artifact(), text.encode(), start=2).content == "i"
    assert cut(artifact(), text.encode(), length=1).content == text[:-2]


def test_a_line_feed_at_the_end_begins_an_empty_line():
    part = cut(artifact(), b"a\nb\n")
    assert (part.content, part.line_count) == ("a\nb\n", 3)
    assert cut(artifact(), b"").line_count == 1


@given(st.text(alphabet="ab\n\r\u2028ß", max_size=40), st.integers(1, 7))
def test_consecutive_parts_make_the_whole_and_the_line_count_is_the_stored_one(
    text: str, length: int
):
    parts: list[str | bytes] = []
    part = cut(artifact(), text.encode(), length=length)
    while part.to_line is not None:
        parts.append(part.content)
        part = cut(artifact(), text.encode(), start=part.to_line + 1, length=length)
    assert "\n".join(str(piece) for piece in parts) == text
    assert part.line_count == count_lines(text)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1"])
@pytest.mark.parametrize("name", ["start", "length"])
def test_numbers_that_are_none_are_refused(name: str, value: object):
    with pytest.raises(InvalidArgument, match=f"{name}={value!r}; allowed is"):
        poem(**{name: value})


@pytest.mark.parametrize("grep", ["", "a\nb", 3, b"a"])
def test_only_text_within_a_line_can_be_searched_for(grep: object):
    with pytest.raises(InvalidArgument, match="allowed is text without a line feed"):
        poem(grep=grep)


@pytest.mark.parametrize("options", [{"start": 1}, {"length": 1}, {"grep": "a"}])
def test_what_is_no_text_has_no_lines(options: dict[str, Any]):
    picture = artifact("image/png")
    with pytest.raises(InvalidArgument, match="'image/png', which is no text"):
        cut(picture, b"\x89PNG\n", **options)
    whole = cut(picture, b"\x89PNG\n")
    assert whole.content == b"\x89PNG\n"
    assert (whole.from_line, whole.to_line, whole.line_count) == (None, None, None)


def test_bytes_in_json_are_base64():
    dumped = json.loads(cut(artifact("image/png"), b"\x89PNG\xff").model_dump_json())
    assert base64.urlsafe_b64decode(dumped["content"]) == b"\x89PNG\xff"


def test_text_that_is_not_utf_8_is_read_with_replacements():
    assert cut(artifact("text/csv"), b"caf\xe9\nb").content == "caf\ufffd\nb"


def test_what_was_counted_in_lines_is_text_whatever_its_type():
    assert cut(artifact("application/pdf", line_count=1), b"text").content == "text"


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("text/markdown; charset=utf-8", True),
        ("Application/JSON", True),
        ("application/problem+json", True),
        ("application/x-ndjson", True),
        ("image/svg+xml", True),
        ("application/octet-stream", False),
        ("application/zip; note=text/plain", False),
        ("image/png", False),
    ],
)
def test_types_that_are_text_are_known(media_type: str, expected: bool):
    assert is_text_type(media_type) is expected


@given(st.binary(max_size=200))
def test_what_is_packed_comes_back(content: bytes):
    packed = pack(content)
    assert len(packed.data) <= len(content)
    assert unpack(packed.compression, packed.data, packed.size, packed.sha256) == content


@given(st.text(alphabet=st.characters(codec=None), max_size=50))
def test_any_text_comes_back_from_its_bytes(text: str):
    assert decoded(encoded(text)) == text


@pytest.mark.parametrize("compression", ["zlib", "none"])
@pytest.mark.parametrize("at", [0, 5, -1])
def test_a_changed_byte_is_damage(compression: str, at: int):
    content = b"row\n" * 50
    packed = pack(content)
    data = bytearray(packed.data if compression == "zlib" else content)
    data[at] ^= 1
    with pytest.raises(ArtifactDamaged, match=packed.sha256.hex()[:16]):
        unpack(compression, bytes(data), packed.size, packed.sha256)


def test_a_small_object_that_inflates_without_end_is_damage_and_is_not_inflated():
    bomb = pack(b"\0" * 50_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactDamaged):
            unpack("zlib", bomb.data, 1_000, bomb.sha256)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_tokens_of_a_huge_text_are_estimated_closely_and_always_alike():
    counter = token_counter("o200k_base")
    rows = [f"row {n}, depot {n * 7919 % 1000}, Straße {n % 13}: 漢字\n" for n in range(60_000)]
    text = "".join(rows)
    assert len(text) > COUNTED_WHOLE
    estimate = count_tokens(text, counter)
    assert estimate == count_tokens(text, counter)
    assert abs(estimate / counter.count(text) - 1) < 0.01


def test_tokens_of_other_texts_are_counted():
    counter = token_counter("o200k_base")
    text = "The depot in Rotterdam. " * 1_000
    assert count_tokens(text, counter) == counter.count(text)


def test_a_few_of_very_many_lines_are_read_without_a_list_of_all() -> None:
    data = b"a line\n" * 1_000_000
    tracemalloc.start()
    try:
        read = cut(artifact(), data, start=900_000, length=2, grep="LINE")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.content == "900000: a line\n900001: a line"
    assert (read.line_count, read.to_line) == (1_000_001, 900_001)
    assert peak < 5 * len(data)
