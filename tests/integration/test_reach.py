"""What the pre-call path can reach: the database, and nothing else."""

import asyncio
import sys

PROGRAM = """
import asyncio, sys
from durable_context import Budget, ContextClient

async def main():
    async with await ContextClient.connect(sys.argv[1], temporal=None) as client:
        branch = await client.open_branch("c")
        for n in range(9):
            await branch.record_turn([{"role": "user", "content": f"turn {n}"}])
        prepared = await branch.prepare("hello", budget=Budget(max_tokens=1000))
        assert prepared, prepared
    clients = {"temporalio", "pydantic_ai", "openai", "httpx", "anthropic", "typer"}
    reached = clients & set(sys.modules)
    sys.exit(f"reached {sorted(reached)}" if reached else 0)

asyncio.run(main())
"""


async def test_recording_and_preparing_reach_no_model_and_no_temporal_client(database_url: str):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, database_url, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
