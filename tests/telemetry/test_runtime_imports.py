"""The library needs OpenTelemetry's API alone."""

import subprocess
import sys
from uuid import uuid4

IMPORTS = """
import sys
import durable_context, durable_context.compaction.temporal_calls
beyond = ("opentelemetry.sdk", "opentelemetry.exporter")
assert "opentelemetry.trace" in sys.modules
assert not [name for name in sys.modules if name.startswith(beyond)]
"""

WITHOUT_SDK = """
import asyncio, sys
from importlib.machinery import PathFinder

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "opentelemetry.sdk" or name.startswith("opentelemetry.sdk."):
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [
    Missing() if finder is PathFinder else finder for finder in sys.meta_path
]
from durable_context import Budget, ContextClient
from durable_context.compaction import requests
from durable_context.telemetry.temporal import interceptors

async def main(database_url, temporal_address, task_queue):
    assert interceptors() == ()
    requests.HINT_SECONDS = 30
    async with await ContextClient.connect(database_url, temporal=None) as client:
        asking = requests.CompactionRequests(temporal_address, task_queue=task_queue)
        client._resources = client._resources._replace(requests=asking)
        branch = await client.open_branch("conversation")
        for number in range(9):
            await branch.record_turn([
                {"role": "user", "content": f"Question {number}?"},
                {"role": "assistant", "content": f"Answer {number}."},
            ])
        assert await branch.prepare("And now?", budget=Budget(max_tokens=10_000))
        assert await branch.resume()
    assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]

asyncio.run(main(*sys.argv[1:]))
"""


def run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_importing_the_library_does_not_import_the_sdk() -> None:
    run(IMPORTS)


def test_all_works_where_the_sdk_is_not_installed(database_url: str, temporal_address: str) -> None:
    run(WITHOUT_SDK, database_url, temporal_address, f"test-{uuid4().hex}")
