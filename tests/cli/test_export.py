"""`durable-context export` and `import`: a branch as a file, and back."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from durable_context import Branch, Budget, ContextClient
from tests.cli.conversations import talk
from tests.cli.running import SECONDS, Run
from tests.turns import numbered

BUDGET = Budget(max_tokens=8_000)


@pytest.fixture
async def branch(client: ContextClient) -> Branch:
    branch = await client.open_branch("talk")
    for number in range(1, 4):
        await branch.record_turn(numbered(number))
    await branch.put_artifact("id,port\n7,Hamburg\n", name="ports.csv")
    return branch


async def test_a_branch_is_written_to_a_file_and_read_back_under_another_id(
    durable_context: Run, client: ContextClient, branch: Branch, tmp_path: Path
):
    file = tmp_path / "talk.jsonl"
    ended = await durable_context("export", "talk", "--output", file)
    assert (ended.code, ended.out) == (0, f"{file}: 7 lines\n"), ended.errors
    assert os.listdir(tmp_path) == ["talk.jsonl"], "nothing is left beside it"

    ended = await durable_context("import", file, "--conversation", "copy", "--branch", "b")
    assert (ended.code, ended.out) == (0, "'copy' 'b': 3 turns, 0 checkpoints\n"), ended.errors
    copy = await client.find_branch("copy", "b")
    assert await copy.turns() == await branch.turns()
    prompt = await copy.prepare("Now?", budget=BUDGET)
    original = await branch.prepare("Now?", budget=BUDGET)
    assert prompt and original
    assert prompt.messages == original.messages

    shown = await durable_context("export", "copy", "--branch", "b")
    assert len(shown.out.splitlines()) == 7


async def test_a_branch_keeps_its_ids_by_default_and_is_not_written_over(
    durable_context: Run, branch: Branch, tmp_path: Path
):
    await branch.fork("other")
    file = tmp_path / "talk.jsonl"
    await durable_context("export", "talk", "--branch", "other", "-o", file)
    again = await durable_context("import", file)
    assert again.code == 1
    assert "'talk' already has a branch 'other': import it under another id" in again.errors
    elsewhere = await durable_context("import", file, "--tenant", "else")
    assert elsewhere.out == "'talk' 'other': 3 turns, 0 checkpoints\n", elsewhere.errors


async def test_one_command_can_be_piped_into_the_other(
    client: ContextClient, branch: Branch, database_url: str
):
    exporting = await _process(["export", "talk"], database_url, None)
    async with asyncio.timeout(SECONDS):
        lines, errors = await exporting.communicate()
    assert exporting.returncode == 0, errors
    importing = await _process(["import", "-", "--conversation", "copy"], database_url, lines)
    async with asyncio.timeout(SECONDS):
        said, errors = await importing.communicate(lines)
    assert (importing.returncode, said) == (0, b"'copy' 'main': 3 turns, 0 checkpoints\n"), errors
    assert await (await client.find_branch("copy")).turns() == await branch.turns()


async def _process(
    arguments: list[str], database_url: str, given: bytes | None
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "durable_context.cli", *arguments),
        env={**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url},
        stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_file_that_is_no_export_is_named_with_its_line(
    durable_context: Run, branch: Branch, client: ContextClient, tmp_path: Path
):
    file = tmp_path / "talk.jsonl"
    await durable_context("export", "talk", "-o", file)
    whole = file.read_bytes()
    for data, message in (
        (b"", "line 1: not JSON"),
        (b"\xff\xfe", "line 1"),
        (str(talk(1)).encode(), "line 1: not JSON"),
        (whole[: len(whole) // 2], "line "),
        (whole.replace(b"Rotterdam", b"Rotterda\xff", 1), "is not UTF-8"),
        (whole.replace(b"Rotterdam", b"Amsterdam", 1), "a line before it was altered"),
    ):
        file.write_bytes(data)
        ended = await durable_context("import", file, "--conversation", "copy")
        assert ended.code == 2
        assert ended.errors.startswith(f"durable-context: {file}: line "), ended.errors
        assert message in ended.errors
        assert len(ended.errors.splitlines()) == 1
    assert await client.branches("copy") == ()


async def test_what_cannot_be_read_or_written_is_one_line(
    durable_context: Run, branch: Branch, tmp_path: Path
):
    missing = tmp_path / "none" / "talk.jsonl"
    ended = await durable_context("import", missing)
    assert (ended.code, ended.errors) == (
        2,
        f"durable-context: {missing}: cannot be read: No such file or directory\n",
    )
    ended = await durable_context("export", "talk", "-o", missing)
    assert (ended.code, ended.errors) == (
        2,
        f"durable-context: {missing}: cannot be written: No such file or directory\n",
    )
    ended = await durable_context("export", "nobody")
    assert ended.code == 1
    assert "no branch 'main' of conversation 'nobody'" in ended.errors


async def test_an_export_that_fails_leaves_the_file_that_was_there(
    durable_context: Run, branch: Branch, tmp_path: Path
):
    file = tmp_path / "talk.jsonl"
    file.write_text("precious")
    ended = await durable_context("export", "nobody", "-o", file)
    assert ended.code == 1
    assert file.read_text() == "precious"
    assert os.listdir(tmp_path) == ["talk.jsonl"]
