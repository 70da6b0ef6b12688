"""Markers: their form, the older one, and what only looks like one."""

import pytest

from durable_context.processors.markers import (
    ends_in_marker,
    handle_of,
    is_handle,
    marked,
    marker,
)

HANDLE = "off_0123456789ab"
KNOWN = {HANDLE, "0123456789ab"}


def test_a_marker_has_the_form_that_was_agreed():
    assert marker(HANDLE) == "[[OFFLOADED: handle=off_0123456789ab]]"


def test_a_handle_is_off_and_twelve_hexadecimal_digits():
    handle = handle_of("content", "task")
    assert is_handle(handle)
    assert handle.startswith("off_")
    assert len(handle) == 16


def test_the_same_content_has_the_same_handle_in_a_scope_only():
    assert handle_of("content", "task") == handle_of("content", "task")
    assert handle_of("content", "task") != handle_of("content", "other")
    assert handle_of("content", "task") != handle_of("Content", "task")


def test_scope_and_content_cannot_be_exchanged():
    assert handle_of("b", "a") != handle_of("a", "b")
    assert handle_of("c", "ab") != handle_of("bc", "a")


def test_any_text_has_a_handle():
    assert is_handle(handle_of("\ud800 \x00", "\udfff"))


def test_a_marker_is_read_back():
    assert marked(marker(HANDLE), KNOWN) == HANDLE
    assert marked(f" {marker(HANDLE)}\n", KNOWN) == HANDLE


def test_the_older_form_is_read_with_and_without_its_prefix():
    assert marked("[[OFFLOAD: handle=0123456789ab]]", KNOWN) == "0123456789ab"
    assert marked("[[OFFLOAD: handle=off_0123456789ab]]", KNOWN) == HANDLE


@pytest.mark.parametrize(
    "text",
    [
        "[[OFFLOADED: handle=off_ffffffffffff]]",
        "[[OFFLOAD: handle=ffffffffffff]]",
        "[[OFFLOADED: handle=0123456789ab]]",
        "[[OFFLOADED: handle=off_0123456789AB]]",
        "[[OFFLOADED: handle=off_0123456789a]]",
        "[[OFFLOADED: handle=off_0123456789ab0]]",
        "[[OFFLOADED:handle=off_0123456789ab]]",
        "[OFFLOADED: handle=off_0123456789ab]",
        "See [[OFFLOADED: handle=off_0123456789ab]]",
        "[[OFFLOADED: handle=off_0123456789ab]] and more",
        "",
    ],
)
def test_what_only_looks_like_a_marker_is_text(text: str):
    assert marked(text, KNOWN) is None


@pytest.mark.parametrize("content", [None, 7, ["[[OFFLOADED: handle=off_0123456789ab]]"], b""])
def test_what_is_no_text_is_no_marker(content: object):
    assert marked(content, KNOWN) is None


def test_a_marker_of_an_unknown_handle_is_text():
    assert marked(marker(HANDLE), set[str]()) is None


def test_a_preview_ends_in_its_marker():
    assert ends_in_marker(f"The beginning... {marker(HANDLE)}", KNOWN) == HANDLE
    assert ends_in_marker(f"The beginning... {marker(HANDLE)} \n", KNOWN) == HANDLE
    assert ends_in_marker(f"{marker(HANDLE)} was the marker", KNOWN) is None
    assert ends_in_marker("The beginning...", KNOWN) is None
    assert ends_in_marker(f"A {marker('off_ffffffffffff')}", KNOWN) is None


def test_only_the_last_marker_counts():
    other = "off_ffffffffffff"
    assert ends_in_marker(f"{marker(HANDLE)} {marker(other)}", KNOWN) is None
    assert ends_in_marker(f"{marker(other)} {marker(HANDLE)}", KNOWN) == HANDLE


@pytest.mark.parametrize("text", ["0123456789ab", HANDLE])
def test_handles_of_both_forms_are_handles(text: str):
    assert is_handle(text)


@pytest.mark.parametrize("text", ["", "off_", "off_0123456789AB", " " + HANDLE, HANDLE + "\n", 7])
def test_anything_else_is_no_handle(text: object):
    assert not is_handle(text)
