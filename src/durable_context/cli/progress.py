"""A line on standard error that shows how far long work is, where somebody looks at it."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from durable_context.cli.output import console


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
