"""`durable-context diff`: two checkpoints, or two prompts, side by side in time."""

import asyncio
import os
import pty
import re
import sys

import pytest

from durable_context import Branch, ContextClient
from durable_context.database import Pool
from tests.cli.running import SECONDS, Run
from tests.compacting import compact_all
from tests.compaction.test_compactor import record


@pytest.fixture
async def branch(client: ContextClient, pool: Pool) -> Branch:
    branch = await client.open_branch("orders")
    await record(branch, 14)
    await compact_all(pool, branch.branch_uuid)
    return branch


async def test_two_checkpoints_are_compared_part_by_part_and_line_by_line(
    durable_context: Run, branch: Branch
) -> None:
    first, last = await branch.checkpoints()
    ended = await durable_context("diff", "orders", "6", str(last.checkpoint_id))
    assert ended.code == 0, ended.errors
    lines = ended.out.splitlines()
    assert lines[0] == (
        f"checkpoint at turn 6 ({first.checkpoint_id}): {first.token_count:,} tokens"
    )
    assert any(line.startswith("+ node  of level 0  turns 7-12  ") for line in lines)
    assert any(line.startswith("+ ledger  identifier: SHP-0012") for line in lines)
    assert "--- checkpoint at turn 6" in lines and "+++ checkpoint at turn 12" in lines
    assert "\x1b" not in ended.out
    as_json = await durable_context("diff", "orders", "6", "12", "--json")
    assert as_json.figures["after"]["token_count"] == last.token_count
    assert as_json.figures["lines"][0] == "--- checkpoint at turn 6"


async def test_two_prompts_are_compared(durable_context: Run, branch: Branch) -> None:
    ended = await durable_context("diff", "orders", "8", "14", "--prompts")
    assert ended.code == 0, ended.errors
    assert "prompt at turn 8" in ended.out.splitlines()[0]
    assert "which no manifest tells of" in ended.out
    assert re.search(r"^\+.*SHP-0014", ended.out, re.MULTILINE)


async def test_equal_texts_are_told(durable_context: Run, branch: Branch) -> None:
    ended = await durable_context("diff", "orders", "6", "6")
    assert ended.code == 0 and ended.out.splitlines()[-1] == "The texts are the same."


async def test_what_cannot_be_compared_is_said(durable_context: Run, branch: Branch) -> None:
    ended = await durable_context("diff", "orders", "six", "6")
    assert ended.code == 2 and "neither the turn" in ended.errors
    ended = await durable_context("diff", "orders", "6", "7")
    assert ended.code == 2 and "those of turns 6, 12 are there" in ended.errors
    ended = await durable_context("diff", "orders", "6", "99", "--prompts")
    assert ended.code == 2 and "allowed are 1 to 14" in ended.errors


async def test_a_terminal_shows_it_in_colours(branch: Branch, database_url: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "durable_context.cli", "diff", "orders", "6", "12"]
    environment = {**os.environ, "DURABLE_CONTEXT_DATABASE_URL": database_url, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    process = await asyncio.create_subprocess_exec(*command, stdout=theirs, env=environment)
    assert await asyncio.wait_for(process.wait(), SECONDS) == 0
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert re.search(r"\x1b\[32m\+ node", shown)


async def test_totals_come_first_and_a_long_ledger_is_cut(
    durable_context: Run, client: ContextClient, pool: Pool
) -> None:
    branch = await client.open_branch("long")
    await record(branch, 80)
    await compact_all(pool, branch.branch_uuid)
    compared = ("diff", "long", "6", "78")
    ended = await durable_context(*compared)
    assert ended.code == 0, ended.errors
    _, _, totals, *lines = ended.out.splitlines()
    facts = [line for line in lines if re.match("[+-] ledger", line)]
    assert "node " in totals and "ledger +72" in totals and "text +" in totals
    assert len(facts) == 20
    assert "... and 52 more ledger entries: --full shows them" in lines
    whole = await durable_context(*compared, "--full")
    assert len([line for line in whole.out.splitlines() if line.startswith("+ ledger")]) == 72
    assert "--full" not in whole.out
