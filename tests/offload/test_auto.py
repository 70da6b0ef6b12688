"""Compaction first, then compression of what it left, if that is still too much."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import Short, blocks, done, offload, rows, stored, talk, total
from tests.turns import chat


async def auto(messages: Any, tmp_path: Path, **parameters: Any) -> OffloadResult:
    given: dict[str, Any] = {
        "max_total_tokens": 1_000,
        "store_dir": tmp_path,
        "chat_id": "chat",
        "summarizer": Short(),
    }
    return await offload(messages, **given | parameters)


async def test_what_compaction_saves_is_enough_up_to_the_threshold(tmp_path: Path) -> None:
    found = await auto(talk(4, 800), tmp_path)
    assert len(found.files) == 4 and blocks(found) == []
    assert done(found, "compress") == [("kept", "compaction_sufficed")]


async def test_the_threshold_is_the_share_of_all_tokens_that_is_left(tmp_path: Path) -> None:
    messages = talk(4, 800)
    compacted = await auto(messages, tmp_path, context_manage_mode="compact")
    share = total(compacted.messages) / total(messages)
    common: dict[str, Any] = {"max_total_tokens": 200}
    at = await auto(messages, tmp_path, compact_ratio_threshold=share, **common)
    above = await auto(messages, tmp_path, compact_ratio_threshold=share - 0.001, **common)
    assert blocks(at) == [] and len(blocks(above)) == 1


async def test_nothing_to_compact_leads_to_compression(tmp_path: Path) -> None:
    messages = [*talk(3, 100), *chat("word " * 2_000, "word " * 2_000), *chat("So?", "So.")]
    found = await auto(messages, tmp_path)
    assert done(found, "compact") == [("kept", "nothing_to_replace")] and len(blocks(found)) == 1


async def test_compression_takes_the_compacted_messages(tmp_path: Path) -> None:
    summarizer = Short()
    messages = talk(6, 800)
    found = await auto(
        messages, tmp_path, compact_ratio_threshold=0, max_total_tokens=300, summarizer=summarizer
    )
    [group] = summarizer.groups
    assert "detailed result is stored in" in str(group) and len(str(group)) < 5_000
    *results, stored = found.files
    assert [file.kind for file in results] == ["tool_message"] * 6
    kept = await ContextOffloadOp(store_dir=tmp_path, chat_id="chat").load(stored.reference)
    for file in results:  # the way back to each original
        assert file.reference in kept
    assert json.loads(kept)[2]["content"].startswith(rows(800, "row 0")[:100])


async def test_what_compaction_saved_stays_when_compression_fails(tmp_path: Path) -> None:
    async def failing(messages: Any) -> str:
        raise RuntimeError

    messages = talk(4, 800)
    found = await auto(
        messages, tmp_path, compact_ratio_threshold=0, max_total_tokens=300, summarizer=failing
    )
    assert found.changed and found.tokens_after < found.tokens_before / 5
    assert [file.kind for file in found.files] == ["tool_message"] * 4


async def test_under_the_total_nothing_happens_and_nothing_is_asked(tmp_path: Path) -> None:
    summarizer = Short()
    messages = talk(4, 100)
    found = await auto(messages, tmp_path, max_total_tokens=20_000, summarizer=summarizer)
    assert list(found.messages) == messages and not summarizer.groups
    assert done(found, "compact") + done(found, "compress") == [("kept", "under_threshold")] * 2
    assert stored(tmp_path) == []


@pytest.mark.parametrize("ratio", [0, 0.75, 1])
async def test_a_second_run_changes_nothing(ratio: float, tmp_path: Path) -> None:
    op = ContextOffloadOp(
        max_total_tokens=300,
        compact_ratio_threshold=ratio,
        store_dir=tmp_path,
        summarizer=Short(),
        group_token_threshold=400,
    )
    first = await op.run(talk(6, 800))
    again = await op.run(first.messages)
    assert first.changed and not again.changed
    assert again.messages == first.messages and again.tokens_before == first.tokens_after


async def test_a_failure_is_tried_again(tmp_path: Path) -> None:
    failing = True

    async def recovering(messages: Any) -> str:
        if failing:
            raise RuntimeError
        return "short"

    op = ContextOffloadOp(
        context_manage_mode="compress",
        max_total_tokens=300,
        store_dir=tmp_path,
        summarizer=recovering,
    )
    first = await op.run(talk(4))
    failing = False
    assert not first.changed and (await op.run(first.messages)).changed


async def test_messages_that_need_nothing_are_told_so_each_time(tmp_path: Path) -> None:
    op = ContextOffloadOp(store_dir=tmp_path)
    first = await op.run(talk(2, 100))
    assert await op.run(talk(2, 100)) == first
    assert {action.reason for action in first.actions} == {"under_threshold"}


async def test_a_summary_that_saved_nothing_is_not_paid_for_again(tmp_path: Path) -> None:
    summarizer = Short("word " * 30_000)
    op = ContextOffloadOp(
        context_manage_mode="compress",
        max_total_tokens=300,
        store_dir=tmp_path,
        summarizer=summarizer,
    )
    for _ in range(3):
        assert not (await op.run(talk(2, 100))).changed
    assert len(summarizer.groups) == 1


def test_an_op_may_be_used_in_one_event_loop_after_the_other(tmp_path: Path) -> None:
    async def slow(messages: Any) -> str:
        await asyncio.sleep(0.001)
        return "short"

    op = ContextOffloadOp(
        context_manage_mode="compress",
        max_total_tokens=300,
        group_token_threshold=300,
        store_dir=tmp_path,
        summarizer=slow,
    )
    for mark in ("monday", "tuesday"):
        assert len(asyncio.run(op.run(talk(8, 40, mark))).files) > 4


async def test_the_same_messages_have_the_same_files_and_the_same_result(tmp_path: Path) -> None:
    parameters: dict[str, Any] = {"compact_ratio_threshold": 0, "max_total_tokens": 300}
    first = await auto(talk(6, 800), tmp_path, **parameters)
    names = stored(tmp_path)
    again = await auto(talk(6, 800), tmp_path, **parameters)
    assert first == again
    assert stored(tmp_path) == names
