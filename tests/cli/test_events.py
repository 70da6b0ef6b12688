"""`durable-context events`: what happened to a branch, in order."""

import asyncio
import json
import os
import signal
import sys

from durable_context import ContextClient
from tests.cli.running import SECONDS, Run
from tests.turns import numbered


async def test_events_are_a_line_each_and_resume_after_a_cursor(
    durable_context: Run, client: ContextClient
):
    branch = await client.open_branch("orders")
    await branch.record_turn(numbered(1))
    await branch.put_artifact("a", name="[red]report\x1b")
    await branch.fork("idea")
    shown = await durable_context("events", "orders")
    assert shown.code == 0, shown.errors
    rows = [line.split() for line in shown.out.splitlines()]
    assert [(row[0], row[4], row[5]) for row in rows] == [
        ("1", "1", "recorded"),
        ("2", "1", "put"),
        ("3", "1", "forked"),
    ]
    assert "name [red]report\\x1b · version 1" in shown.out
    assert "child idea" in shown.out
    later = await durable_context("events", "orders", "--after", "2")
    assert later.out == shown.out.splitlines()[2] + "\n"
    of_child = await durable_context("events", "orders", "--branch", "idea")
    assert "parent main" in of_child.out


async def test_json_is_an_event_per_line(durable_context: Run, client: ContextClient):
    branch = await client.open_branch("orders")
    for turn in range(1, 4):
        await branch.record_turn(numbered(turn))
    shown = await durable_context("events", "orders", "--json")
    events = [json.loads(line) for line in shown.out.splitlines()]
    assert [(event["cursor"], event["turn_no"]) for event in events] == [(1, 1), (2, 2), (3, 3)]
    assert events == [json.loads(e.model_dump_json()) async for e in branch.events()]


async def test_a_cursor_that_is_not_there_is_an_error(durable_context: Run, client: ContextClient):
    await client.open_branch("orders")
    ended = await durable_context("events", "orders", "--after", "5")
    assert ended.code == 2
    assert "after=5 is beyond the newest event" in ended.errors


async def test_following_shows_events_as_they_happen_until_it_is_interrupted(
    client: ContextClient, database_url: str
):
    branch = await client.open_branch("orders")
    await branch.record_turn(numbered(1))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "durable_context.cli", "events", "orders", "--follow", "--json"),
        env={**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert json.loads(await process.stdout.readline())["cursor"] == 1
        await branch.record_turn(numbered(2))
        assert json.loads(await process.stdout.readline())["cursor"] == 2
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert process.returncode == 130
    assert errors == b""
