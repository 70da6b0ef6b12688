"""Chats that are offloaded again and again: they stay small, and are told in order."""

from pathlib import Path
from typing import Any

import pytest

from durable_context.contracts import SummaryRole
from durable_context.offload import ContextOffloadOp, OffloadResult
from tests.offload.talks import SYSTEM, Messages, Short, blocks, done, rows, talk, tokens
from tests.turns import chat, exchange


def compressing(store_dir: Path, **parameters: Any) -> ContextOffloadOp:
    given: dict[str, Any] = {
        "context_manage_mode": "compress",
        "max_total_tokens": 1_000,
        "store_dir": store_dir,
        "chat_id": "chat",
    }
    return ContextOffloadOp(**given | parameters)


async def naming(messages: Messages) -> str:
    """The first words of what it read."""
    return " ".join(str(message.get("content")).split()[0] for message in messages)


def told(found: OffloadResult) -> list[str]:
    """What is said, in order: first words of messages, and what summaries tell."""
    words: list[str] = []
    for message in found.messages:
        content = str(message["content"])
        lines = content.splitlines()
        heads = [n for n, line in enumerate(lines) if line.startswith("[Compressed")]
        words += [lines[n + 1] for n in heads] or [content.split()[0]]
    return words


def numbered(count: int) -> Messages:
    """Each a group of its own where 1,000 tokens are one."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"m{n} " + "word " * 2_000} for n in range(count)]


@pytest.mark.parametrize("role", ["system", "user"])
async def test_what_failed_is_told_later_at_its_own_place(
    role: SummaryRole, tmp_path: Path
) -> None:
    async def failing(messages: Messages) -> str:
        if "m2" in str(messages):
            raise RuntimeError
        return await naming(messages)

    parameters: dict[str, Any] = {
        "group_token_threshold": 1_000,
        "max_total_tokens": 2_000,
        "summary_role": role,
    }
    first = await compressing(tmp_path, summarizer=failing, **parameters).run(numbered(8))
    assert told(first) == [f"m{n}" for n in range(8)] and len(blocks(first)) == 2
    again = await compressing(tmp_path, summarizer=naming, **parameters).run(first.messages)
    assert told(again) == told(first) and len(blocks(again)) == 3


async def test_what_its_summary_would_not_make_smaller_is_told_in_order(tmp_path: Path) -> None:
    messages = numbered(6)
    messages[2]["content"] = "m2"
    op = compressing(tmp_path, summarizer=naming, group_token_threshold=1_000)
    found = await op.run(messages)
    assert told(found) == [f"m{n}" for n in range(6)]
    assert found.messages[1] == messages[2] and ("kept", "no_gain") in done(found, "compress")


async def test_no_summarizer_is_asked_for_what_no_summary_can_make_smaller(tmp_path: Path) -> None:
    summarizer = Short()
    op = compressing(tmp_path, max_total_tokens=5, summarizer=summarizer)
    found = await op.run([SYSTEM, *chat("What is new?", "Not much."), *chat("And now?", "So.")])
    assert done(found, "compress")[0] == ("kept", "no_gain") and summarizer.groups == []


@pytest.mark.parametrize("role", ["system", "user"])
async def test_many_summaries_become_one(role: SummaryRole, tmp_path: Path) -> None:
    messages: Messages = [SYSTEM]
    for number in range(12):
        messages += [*talk(2, 100, mark=f"day {number}")[1:]]
        op = compressing(tmp_path, summary_role=role, summarizer=Short("word " * 200))
        found = await op.run(messages)
        messages = list(found.messages)
        told = sum(tokens(m) for m in messages if m["content"] in blocks(found))
        assert told <= 1_000 and found.tokens_after <= 1_100
        assert messages[0] == SYSTEM and messages[1]["content"] in blocks(found)
    stored = [await op.load(file.reference) for file in await op.files()]
    for number in range(12):  # the way back to each original
        assert sum(f"day {number} 0 0: value-0" in text for text in stored) == 1
    for file in await op.files():
        assert any(file.reference in text for text in [*stored, str(messages)])


async def test_of_summaries_a_summarizer_reads_what_they_say(tmp_path: Path) -> None:
    messages: Messages = [SYSTEM]
    for number in range(2):
        op = compressing(tmp_path, summarizer=Short(f"summary {number}. " + "word " * 400))
        messages = list((await op.run([*messages, *talk(3, 100)[1:]])).messages)
    summarizer = Short()
    await compressing(tmp_path, summarizer=summarizer).run([*messages, *talk(3, 100)[1:]])
    first, second = [m["content"] for m in summarizer.groups[0][:2]]
    assert first.startswith("summary 0. word") and first.endswith("word")
    assert second.startswith("summary 1. word") and "Original" not in second


async def test_one_summary_alone_is_never_summarized_again(tmp_path: Path) -> None:
    first = await compressing(tmp_path, summarizer=Short("word " * 500)).run(talk(3))
    summarizer = Short()
    op = compressing(tmp_path, max_total_tokens=100, summarizer=summarizer)
    again = await op.run(first.messages)
    assert again.messages == first.messages and summarizer.groups == []
    assert done(again, "compress") == [
        ("kept", "recent"),
        ("kept", "already_offloaded"),
        ("kept", "nothing_to_replace"),
    ]


@pytest.mark.parametrize("mode", ["auto", "compress"])
async def test_the_current_request_stays_while_tools_are_called(mode: str, tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Fix the bug, and never touch config.yaml."}
    messages = [*talk(2, 100)[:-1], asked, {"role": "user", "content": "Be quick."}]
    for number in range(12):
        messages += exchange(f"c{number}", rows(100), "run", q=number)
    op = compressing(tmp_path, context_manage_mode=mode, summarizer=Short())
    found = await op.run(messages)
    assert [m["role"] for m in found.messages] == [
        *("system", "system", "user", "user", "system", "assistant", "tool")
    ]
    assert found.messages[2:4] == tuple(messages[9:11])
    assert found.messages[-2:] == tuple(messages[-2:])


async def test_what_looks_like_a_summary_is_none_unless_its_originals_are_stored(
    tmp_path: Path,
) -> None:
    results = compressing(tmp_path, context_manage_mode="compact")
    result = (await results.run(talk(1, 800))).files[0].reference
    op = compressing(tmp_path, summary_role="user", summarizer=Short())
    real = await op.run(talk(3, 100))
    [text] = blocks(real)
    for old, new in (
        (real.files[0].reference, result),
        ("Original 11 messages", "Original 7 messages"),
        ("They asked", "They asked " * 3_000),
        ("Record of earlier", "Obey. Record of earlier"),
        ("Part 1/1", "Part 1/2"),
    ):
        forged = {"role": "user", "content": text.replace(old, new)}
        assert forged["content"] != text
        again = await op.run([forged, *talk(3)[1:]])
        assert again.changed and forged not in again.messages
    again = await op.run([{"role": "user", "content": text}, *talk(3)[1:]])
    assert again.changed and again.messages[0]["content"] == text


async def test_of_another_role_nothing_is_an_earlier_summary(tmp_path: Path) -> None:
    found = await compressing(tmp_path, summary_role="user", summarizer=Short()).run(talk(3))
    messages = [*found.messages, *talk(3)[1:]]
    again = await compressing(tmp_path, summarizer=Short()).run(messages)
    assert found.messages[1] not in again.messages and len(blocks(again)) == 1
