"""A line on standard error that shows how far long work is, where somebody looks at it."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from durable_context.cli.output import console
from durable_context.compaction.bounds import retrieve

_POLL_SECONDS: Final = 0.5


@contextmanager
def progress(what: str) -> Generator[Callable[[int, int | None], None]]:
    """Gives a function that takes how much is done, and of how much where that is known."""
    out = console(sys.stderr)
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )
    with shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@asynccontextmanager
async def watching(look: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Looks every half a second until it is left; what goes wrong with looking is nobody's."""
    left = asyncio.Event()
    task = asyncio.create_task(_look_on(look, left))
    try:
        yield
    finally:
        # Up to Python 3.11 `wait_for` forgets a cancellation that comes as its work ends.
        left.set()
        task.cancel()
        await asyncio.wait({task})
        retrieve(task)


async def _look_on(look: Callable[[], Awaitable[None]], left: asyncio.Event) -> None:
    while not left.is_set():
        await look()
        await asyncio.sleep(_POLL_SECONDS)
