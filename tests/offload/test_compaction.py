"""Compaction as the seed has it, and what its origin got wrong."""

import copy
import hashlib
from pathlib import Path
from typing import Any

import pytest

from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import check_exchanges, done, offload, places, rows, talk, tokens, total
from tests.turns import call, calling, exchange, result

LARGE = rows(800)


async def compact(messages: Any, tmp_path: Path, **parameters: Any) -> OffloadResult:
    given: dict[str, Any] = {"max_total_tokens": 1_000, "store_dir": tmp_path, "chat_id": "chat"}
    return await offload(messages, **{"context_manage_mode": "compact"} | given | parameters)


async def test_a_large_tool_message_keeps_a_preview_and_a_reference(tmp_path: Path) -> None:
    messages = [*exchange("c", LARGE, "find"), {"role": "user", "content": "Thanks."}]
    result = await compact(messages, tmp_path)
    [file] = result.files
    assert result.messages[1]["content"] == (
        f"{LARGE[:100]}... (detailed result is stored in {file.reference})"
    )
    assert (tmp_path / file.reference).read_text() == LARGE
    assert file.sha256 == hashlib.sha256(LARGE.encode()).hexdigest()
    assert (file.kind, file.size, file.name) == ("tool_message", len(LARGE), "find")


async def test_nothing_happens_up_to_the_total_of_all_messages(tmp_path: Path) -> None:
    messages = talk(3)
    size = total(messages)
    assert not (await compact(messages, tmp_path, max_total_tokens=size)).changed
    assert (await compact(messages, tmp_path, max_total_tokens=size - 1)).changed


async def test_system_and_recent_messages_count_for_the_total(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "word " * 3_000},
        *exchange("c", LARGE),
        {"role": "user", "content": "word " * 3_000},
    ]
    limit = total(messages[1:3]) + 10
    assert (await compact(messages, tmp_path, max_total_tokens=limit)).changed


async def test_only_tool_messages_beyond_their_threshold_are_stored(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": LARGE},
        *exchange("a", rows(100)),
        *exchange("b", LARGE),
        {"role": "assistant", "content": LARGE},
        {"role": "user", "content": "So?"},
    ]
    threshold = tokens(messages[4])
    assert not (await compact(messages, tmp_path, max_tool_message_tokens=threshold)).changed
    result = await compact(messages, tmp_path, max_tool_message_tokens=threshold - 1)
    assert [place for place in range(7) if result.messages[place] != messages[place]] == [4]


async def test_all_of_them_are_stored_even_if_the_total_is_small_enough_before(
    tmp_path: Path,
) -> None:
    messages = talk(6, large=800)
    result = await compact(messages, tmp_path, max_total_tokens=total(messages) - 1)
    assert len(result.files) == 6


async def test_recent_messages_are_left_alone_and_system_messages_do_not_count(
    tmp_path: Path,
) -> None:
    messages = [
        *exchange("a", LARGE + "a"),
        *exchange("b", LARGE + "b"),
        {"role": "system", "content": "Be brief."},
    ]
    result = await compact(messages, tmp_path, keep_recent_count=1)
    assert result.messages[3]["content"] == LARGE + "b" and len(result.files) == 1
    assert done(result, "compact") == [("compacted", "over_threshold"), ("kept", "recent")]


async def test_the_recent_boundary_never_splits_a_tool_exchange(tmp_path: Path) -> None:
    calls = [call(f"c{n}", "find") for n in range(3)]
    messages = [
        *exchange("old", LARGE + "old"),
        calling(*calls),
        *(result(f"c{n}", LARGE + str(n)) for n in range(3)),
    ]
    found = await compact(messages, tmp_path, keep_recent_count=1)
    assert [m["content"] for m in found.messages[3:]] == [LARGE + str(n) for n in range(3)]
    assert len(found.files) == 1


async def test_messages_that_were_given_are_never_changed(tmp_path: Path) -> None:
    messages = talk(6)
    before = copy.deepcopy(messages)
    assert (await compact(messages, tmp_path)).changed
    assert messages == before


async def test_names_unknown_keys_null_content_and_developers_stay(tmp_path: Path) -> None:
    messages = [
        {"role": "developer", "content": "Be kind.", "cache": True},
        {"role": "user", "name": "mia", "content": "Find it.", "metadata": {"a": [1, None]}},
        {**calling(call("c", "find")), "refusal": None, "reasoning_content": "Hm."},
        {**result("c", LARGE), "name": "find", "is_error": False},
        {"role": "user", "content": "Go on."},
    ]
    found = await compact(messages, tmp_path)
    pointer = found.messages[3]
    assert found.messages[:3] == tuple(messages[:3]) and found.messages[4] == messages[4]
    assert {**pointer, "content": LARGE} == messages[3]


async def test_of_a_list_of_parts_the_text_is_stored_and_the_others_stay(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    parts = [
        {"type": "text", "text": LARGE, "cache_control": {"type": "ephemeral"}},
        image,
        {"type": "text", "text": "the end"},
    ]
    messages: Any = [*exchange("c", ""), {"role": "user", "content": "So?"}]
    messages[1]["content"] = parts
    found = await compact(messages, tmp_path)
    text, kept = found.messages[1]["content"]
    assert kept == image and text["cache_control"] == {"type": "ephemeral"}
    assert text["text"].startswith(LARGE[:100]) and found.files[0].reference in text["text"]
    assert await ContextOffloadOp(store_dir=tmp_path, chat_id="chat").load(
        found.files[0].reference
    ) == (LARGE + "\nthe end")


async def test_a_pointer_that_is_no_smaller_is_not_made(tmp_path: Path) -> None:
    messages = [*talk(2), *exchange("c", rows(8)), {"role": "user", "content": "So?"}]
    found = await compact(messages, tmp_path, max_tool_message_tokens=10)
    assert found.messages[-2] == messages[-2]
    assert ("kept", "no_gain") in done(found, "compact")
    assert all(action.tokens_after <= action.tokens_before for action in found.actions)


async def test_an_image_alone_is_no_text_to_store(tmp_path: Path) -> None:
    messages: Any = [*exchange("c", ""), {"role": "user", "content": LARGE}]
    url = "https://example.org/a.png"
    messages[1]["content"] = [{"type": "image_url", "image_url": {"url": url}}]
    found = await compact(messages, tmp_path, max_tool_message_tokens=10)
    assert done(found, "compact") == [("kept", "no_gain")] and found.files == ()


async def test_without_a_preview_only_the_reference_is_shown(tmp_path: Path) -> None:
    found = await compact([*talk(1, 800)], tmp_path, preview_chars=0)
    [file] = found.files
    assert found.messages[3]["content"] == f"(detailed result is stored in {file.reference})"


@pytest.mark.parametrize("preview_chars", [0, 1, 100, 3_000])
async def test_a_pointer_is_never_offloaded_again(preview_chars: int, tmp_path: Path) -> None:
    tight = {"max_tool_message_tokens": 1, "max_total_tokens": 1}
    first = await compact(talk(3, 900), tmp_path, preview_chars=preview_chars, **tight)
    assert first.changed
    for chars in (0, 50, preview_chars):  # by others with other previews, too
        again = await compact(first.messages, tmp_path, preview_chars=chars, **tight)
        assert not again.changed and again.messages == first.messages
    assert len(await ContextOffloadOp(store_dir=tmp_path, chat_id="chat").files()) == 3


async def test_what_only_looks_like_a_pointer_is_a_result_like_any_other(tmp_path: Path) -> None:
    known = (await compact(talk(1, 800), tmp_path)).files[0].reference
    for text in (
        f"{LARGE}... (detailed result is stored in nowhere/{'0' * 64}.txt)",
        f"{LARGE}... (detailed result is stored in {known})",
        f"{LARGE}(detailed result is stored in {known})",
        f"{talk(1, 800)[3]['content']}... (detailed result is stored in {known})",
    ):
        messages = [*exchange("c", text), {"role": "user", "content": "So?"}]
        found = await compact(messages, tmp_path)
        assert (tmp_path / found.files[0].reference).read_text() == text


async def test_a_pointer_of_another_chat_is_a_result_like_any_other(tmp_path: Path) -> None:
    first = await compact(talk(1, 800), tmp_path, preview_chars=3_000)
    tight: dict[str, Any] = {"max_tool_message_tokens": 200, "max_total_tokens": 1}
    other = await compact(first.messages, tmp_path, chat_id="other", **tight)
    assert done(other, "compact") == [("compacted", "over_threshold")]


async def test_two_results_of_one_call_id_keep_two_originals(tmp_path: Path) -> None:
    messages = [
        *exchange("call_0", LARGE + "first"),
        *exchange("call_0", LARGE + "second"),
        {"role": "user", "content": "So?"},
    ]
    found = await compact(messages, tmp_path)
    texts = [(tmp_path / file.reference).read_text() for file in found.files]
    assert texts == [LARGE + "first", LARGE + "second"]


async def test_two_same_results_share_a_file(tmp_path: Path) -> None:
    messages = [*exchange("a", LARGE), *exchange("b", LARGE), {"role": "user", "content": "So?"}]
    found = await compact(messages, tmp_path)
    assert len(found.files) == 1 and len(places(found.messages, "tool")) == 2
    assert found.messages[1]["content"] == found.messages[3]["content"]


async def test_tokens_are_exact_and_count_tool_calls_and_any_script(tmp_path: Path) -> None:
    messages = [
        calling(call("c", "write", text="word " * 3_000)),
        result("c", "仓" * 3_000),
        {"role": "user", "content": "So?"},
    ]
    found = await compact(messages, tmp_path)
    assert found.tokens_before == total(messages) > 5_000
    assert found.tokens_after == total(found.messages)
    assert found.messages[1]["content"].startswith("仓" * 100 + "...")


async def test_what_was_done_names_positions_reasons_and_tokens(tmp_path: Path) -> None:
    messages = talk(2, 800)
    found = await compact(messages, tmp_path)
    assert [action.messages for action in found.actions] == [(3,), (7,)]
    for action, file in zip(found.actions, found.files, strict=True):
        [place] = action.messages
        assert (action.done, action.reason) == ("compacted", "over_threshold")
        assert action.reference == file.reference
        assert action.tokens_before == tokens(messages[place])
        assert action.tokens_after == tokens(found.messages[place])
    saved = sum(action.tokens_before - action.tokens_after for action in found.actions)
    assert found.tokens_before - found.tokens_after == saved


async def test_results_without_a_call_and_calls_without_a_result_are_no_trouble(
    tmp_path: Path,
) -> None:
    messages = [
        result("lost", LARGE),
        {"role": "tool", "content": LARGE + "2"},
        calling(call("never", "find")),
        {"role": "user", "content": "So?"},
    ]
    found = await compact(messages, tmp_path)
    assert len(found.files) == 2
    check_exchanges(messages, found.messages)
