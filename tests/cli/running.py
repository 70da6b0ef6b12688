"""What a command printed and how it ended."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

SECONDS = 60


class Ended(NamedTuple):
    code: int
    out: str
    errors: str

    @property
    def figures(self) -> dict[str, Any]:
        """The JSON object on the last line."""
        return json.loads(self.out.splitlines()[-1])


Run = Callable[..., Awaitable[Ended]]


async def run_process(arguments: Sequence[str], environment: dict[str, str]) -> Ended:
    """Runs Python with these arguments."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SECONDS):
        out, errors = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), errors.decode())
