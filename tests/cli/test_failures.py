"""Errors as users of the command line see them: a line that says what to do, and an exit code."""

import asyncio
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import asyncpg
import pytest
from typer import Exit

from durable_context.cli.failures import run
from durable_context.compaction.temporal_calls import CompactionCalls, connect
from tests.cli.conversations import talk
from tests.cli.running import Run

Write = Callable[..., Path]
OFFLINE = ("--temporal", "none")


async def test_a_bad_file_is_one_line_and_exit_code_2(durable_context: Run, written: Write):
    ended = await durable_context("replay", written([{"role": "robot"}]), *OFFLINE)
    assert ended.code == 2
    assert ended.errors.count("\n") == 1
    assert "talk.json, message 1: role 'robot' is not one of system" in ended.errors


async def test_a_database_that_is_not_there_is_one_line_and_exit_code_1(
    durable_context: Run, written: Write
):
    url = "postgresql://someone:secret@127.0.0.1:9/nothing"
    ended = await durable_context("replay", written(talk(1)), "--database-url", url)
    assert ended.code == 1
    assert ended.errors.count("\n") == 1
    assert "--database-url or DURABLE_CONTEXT_DATABASE_URL" in ended.errors
    assert "at 127.0.0.1:9: " in ended.errors
    assert "python -m worker dev" in ended.errors
    assert "secret" not in ended.errors


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("mysql://someone:secret@there/x", "'there/x' is not a database URL"),
        ("host=there password=secret", "'host=there password=…' is not a database URL"),
        ("postgresql://someone:sec/ret@127.0.0.1:9/x", "'127.0.0.1:9': the database URL"),
        ("postgresql://someone:secret@there:port/x", "'there:port': the database URL"),
        ("postgresql://127.0.0.1:9/x?password=s@secret", "at 127.0.0.1:9: "),
    ],
)
async def test_a_wrong_database_url_is_named_without_its_password(
    durable_context: Run, url: str, named: str
):
    ended = await durable_context("show", "orders", "--database-url", url)
    assert ended.code == 1
    assert named in ended.errors
    assert "sec" not in ended.errors


async def test_a_file_that_is_not_json_is_told_what_is_allowed(
    durable_context: Run, tmp_path: Path
):
    file = tmp_path / "talk.csv"
    file.write_text("role,content\nuser,hello\n")
    ended = await durable_context("replay", file, *OFFLINE)
    assert ended.code == 2
    assert "not JSON" in ended.errors
    assert "Allowed are JSON and JSON Lines" in ended.errors


async def test_a_database_without_the_schema_says_how_to_make_it(
    durable_context: Run, written: Write, connection: "asyncpg.Connection[asyncpg.Record]"
):
    await connection.execute("drop schema durable_context cascade")
    ended = await durable_context("replay", written(talk(1)), *OFFLINE)
    assert ended.code == 1
    assert ended.errors.count("\n") == 1
    assert "python -m durable_context.migrations" in ended.errors


async def test_compaction_that_does_not_come_is_said_after_the_figures(
    durable_context: Run, written: Write
):
    ended = await durable_context(
        "replay",
        written(talk(9)),
        "--temporal",
        "127.0.0.1:9",
        "--flat-out",
        "--wait-seconds",
        "0.5",
        "--json",
    )
    assert ended.code == 1
    assert ended.figures["turns"] == 9
    assert ended.figures["compactions"] == 0
    assert "compaction of 'talk' was not done after 0.5 s" in ended.errors


async def test_what_a_file_says_is_never_markup_for_the_terminal(
    durable_context: Run, written: Write
):
    file = written([{"id": f"[red]{i}[/red]\x1b[31m", "messages": talk(1)} for i in range(2)])
    ended = await durable_context("replay", file, *OFFLINE)
    assert ended.code == 0, ended.errors
    assert "[red]0[/red]\\x1b[31m" in ended.out
    assert "\x1b" not in ended.out


async def test_options_are_checked_with_exit_code_2(durable_context: Run, written: Write):
    ended = await durable_context("replay", written(talk(1)), "--stretch", "0")
    assert ended.code == 2
    assert "--stretch" in ended.errors


async def test_temporal_that_refuses_is_said_without_debug_text():
    calls = CompactionCalls(await connect("127.0.0.1:9"), "compaction")

    async def ask() -> int:
        await calls.check()
        return 0

    said = StringIO()
    with redirect_stderr(said), pytest.raises(Exit) as ended:
        await asyncio.to_thread(run, ask())
    assert ended.value.exit_code == 1
    assert said.getvalue() == (
        "durable-context: Temporal could not be asked: Connection refused (127.0.0.1:9)\n"
    )


@pytest.mark.parametrize("command", ["replay", "show", "branches", "artifact", "events"])
async def test_switches_take_no_value(durable_context: Run, command: str):
    ended = await durable_context(command, "--help")
    switches = ("--json", "--prompt", "--fork", "--follow")
    rows = [line for line in ended.out.splitlines() if any(name in line for name in switches)]
    assert rows
    assert not any("bool" in row for row in rows)
