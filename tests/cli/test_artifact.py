"""`durable-context artifact`: a content, whole or in part, to the terminal, a pipe or a file."""

import asyncio
import json
import os
import pty
import sys
from pathlib import Path

import pytest

from durable_context import Artifact, Branch, ContextClient
from tests.cli.running import SECONDS, Run

HOSTILE = "first \x1b]0;title\x07\nsecond \u202e Zürich\nthird\n"
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    return await client.open_branch("orders")


async def _text(branch: Branch) -> Artifact:
    return await branch.put_artifact(HOSTILE, name="notes.txt")


async def test_a_pipe_gets_the_content_as_it_is(branch: Branch, database_url: str):
    for content in (HOSTILE, IMAGE):
        stored = await branch.put_artifact(content, name="content")
        arguments = ("artifact", stored.handle, "--conversation", "orders")
        piped = await _piped(arguments, database_url)
        assert piped == (content if isinstance(content, bytes) else content.encode())


async def _piped(arguments: tuple[str, ...], database_url: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "durable_context.cli", *arguments),
        env={**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return out


async def test_parts_are_lines_each_with_its_end(durable_context: Run, branch: Branch):
    stored = await _text(branch)
    arguments = ("artifact", stored.handle, "--conversation", "orders")
    part = await durable_context(*arguments, "--start", "2", "--length", "1")
    assert part.out == "second \u202e Zürich\n"
    found = await durable_context(*arguments, "--grep", "THIRD")
    assert (found.code, found.out) == (0, "3: third\n")
    none = await durable_context(*arguments, "--grep", "fourth")
    assert (none.code, none.out) == (1, "")


async def test_a_file_gets_it_as_it_is(durable_context: Run, branch: Branch, tmp_path: Path):
    stored = await branch.put_artifact(IMAGE, name="image.png")
    file = tmp_path / "image.png"
    arguments = ("artifact", stored.handle, "--conversation", "orders", "--output")
    ended = await durable_context(*arguments, file)
    assert (ended.code, ended.out) == (0, "")
    assert file.read_bytes() == IMAGE
    refused = await durable_context(*arguments, tmp_path / "none" / "image.png")
    assert refused.code == 2
    assert "image.png' cannot be written: No such file or directory" in refused.errors


async def test_json_holds_the_content_with_its_artifact(durable_context: Run, branch: Branch):
    stored = await _text(branch)
    arguments = ("artifact", stored.handle, "--conversation", "orders", "--json")
    shown = (await durable_context(*arguments)).figures
    assert shown["content"] == HOSTILE
    assert (shown["from_line"], shown["to_line"], shown["line_count"]) == (1, 4, 4)
    assert shown["artifact"] == json.loads(stored.model_dump_json())


async def test_only_branches_of_the_lineage_see_it(durable_context: Run, branch: Branch):
    sibling = await branch.fork("before")
    stored = await _text(branch)
    await branch.fork("after")
    arguments = ("artifact", stored.handle, "--conversation", "orders", "--branch")
    assert (await durable_context(*arguments, "after")).code == 0
    for handle, name in ((stored.handle, sibling.branch_id), ("art_no", "main")):
        ended = await durable_context(
            "artifact", handle, "--conversation", "orders", "--branch", name
        )
        assert ended.code == 2
        assert f"the branch sees no artifact {handle!r}" in ended.errors


async def test_a_terminal_is_shown_text_that_cannot_act_on_it(branch: Branch, database_url: str):
    stored = await _text(branch)
    code, shown = await _on_terminal(stored, database_url)
    assert code == 0
    assert "first \\x1b]0;title\\x07\r\nsecond \\u202e Zürich\r\nthird" in shown
    assert "\x1b]" not in shown


async def test_a_terminal_is_not_shown_bytes(branch: Branch, database_url: str):
    code, shown = await _on_terminal(
        await branch.put_artifact(IMAGE, name="image.png"), database_url
    )
    assert code == 1
    assert "\x89PNG" not in shown


async def _on_terminal(stored: Artifact, database_url: str) -> tuple[int | None, str]:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "durable_context.cli", "artifact", stored.handle),
        *("--conversation", "orders"),
        env={**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url, "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(theirs)
    async with asyncio.timeout(SECONDS):
        await process.communicate()
    os.set_blocking(ours, False)
    try:
        shown = os.read(ours, 100_000)
    except (BlockingIOError, OSError):
        shown = b""
    finally:
        os.close(ours)
    return process.returncode, shown.decode()
