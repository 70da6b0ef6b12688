"""Equal inputs give equal bytes, whatever process asks."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from durable_context import Branch, Budget, ContextClient, PreparedContext
from durable_context.database import Pool
from tests.compacting import compact_all, compact_once
from tests.properties.histories import TOOLS, WORDS
from tests.provider_prompts import requests_of
from tests.provider_turns import ANTHROPIC, GEMINI, RESPONSES
from tests.turns import chat, exchange, numbered

ROOT = Path(__file__).parents[2]
PENDING = [*exchange("p1", "仓 arrived\n" * 400, "look", at="Rotterdam"), *exchange("p2", "late")]
PROGRAM = """
import asyncio, sys
from durable_context import ContextClient
from tests.integration.test_same_bytes import all_bytes

async def main(url):
    async with await ContextClient.connect(url, temporal=None) as client:
        sys.stdout.buffer.write(await all_bytes(client))

asyncio.run(main(sys.argv[1]))
"""


async def all_bytes(client: ContextClient) -> bytes:
    """All that prepare() says of two branches at several budgets, in every format."""
    said: list[Any] = []
    for branch_id in ("main", "run"):
        branch = await client.find_branch("c", branch_id)
        said += [await _said(branch, limit, model) for limit, model in BUDGETS]
    return json.dumps(said, default=repr).encode()


BUDGETS = [(100_000, None), (2_500, None), (900, None), (400, None), (1, None), (3_000, "gpt-4o")]


async def _said(branch: Branch, limit: int, model: str | None) -> Any:
    budget = Budget(max_tokens=limit, instructions="Be brief.", tools=TOOLS, model=model)
    message = "What of SHP-0003 and art_x?" if branch.branch_id == "main" else None
    pending = [] if message else PENDING
    prepared = await branch.prepare(message, budget=budget, pending=pending)
    shown = prepared.model_dump(mode="python")
    if not isinstance(prepared, PreparedContext):
        return shown
    return [shown, requests_of(prepared), requests_of(await prepared.load_parts())]


@pytest.fixture
async def told(client: ContextClient, pool: Pool) -> ContextClient:
    """A branch with a checkpoint, artifacts, reasoning and digests, and one in a long run."""
    branch = await client.open_branch("c", "main")
    for n in range(1, 25):
        await branch.record_turn(numbered(n))
    for word in WORDS:
        await branch.record_turn(chat(f"say {word}", word))
    await compact_all(pool, branch.branch_uuid)
    for turn in (ANTHROPIC, GEMINI, RESPONSES):
        await branch.record_turn(turn)
        await branch.record_turn(
            [{"role": "user", "content": "look"}, *exchange("a", "row SHP-0003\n" * 900)]
        )
    run = await branch.fork("run")
    await run.record_turn([{"role": "user", "content": "Mend it all."}], continues=True)
    for n in range(12):
        await run.record_turn(exchange("a", f"line {n} of SHP-0003\n" * 40 * n), continues=True)
    await compact_once(pool, run.branch_uuid, run.policy)
    return client


async def test_equal_inputs_give_equal_bytes_in_every_process(
    told: ContextClient, database_url: str
):
    here = await all_bytes(told)
    assert here == await all_bytes(told)
    assert b'"checkpoint"' in here and b'"retrieved"' in here and b'"smallest"' in here
    others = await asyncio.gather(*(_in_a_new_process(database_url, seed) for seed in ("1", "77")))
    assert [other == here for other in others] == [True, True]


async def _in_a_new_process(database_url: str, seed: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        database_url,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output
