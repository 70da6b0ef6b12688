"""`python -m benchmarks.cache`: the share of prompt tokens that a prefix cache would serve.

Every call of the model in recorded conversations is prepared, compaction kept up. The cache holds
the branch's prompt before. "in steps": as OpenAI does it, prefixes of at least 1,024 tokens in
steps of 128; mean tokens at a part of the price for those are counted with these.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.cache.measure import Cached, measure_agents, measure_dialogues
from benchmarks.cache.report import as_json, show
from benchmarks.database import Database, benchmark_database
from benchmarks.sizes import sizes_of
from benchmarks.traces import DEFAULT_DATA, Half, locomo, taubench
from durable_context.errors import DurableContextError
from worker.errors import WorkerError
from worker.termination import Termination

Measure = Callable[[Database], Awaitable[Cached]]


class Only(StrEnum):
    TAUBENCH = "taubench"
    LOCOMO = "locomo"


def main(
    data: Annotated[
        Path, typer.Option(help="Folder with the recordings.", show_default="../shared/data")
    ] = DEFAULT_DATA,
    half: Annotated[Half, typer.Option(help="Of each corpus.")] = Half.DEV,
    budgets: Annotated[str, typer.Option(help="Tokens, with commas.")] = "4000,8000,32000",
    only: Annotated[Only | None, typer.Option(help="This corpus.")] = None,
    limit: Annotated[int | None, typer.Option(help="First branches of each corpus.", min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure what a prefix cache serves of our prompts, beside other prompts."""
    sizes = sizes_of(budgets)
    progress = Console(stderr=True, highlight=False)

    def report(line: str) -> None:
        progress.print(line, markup=False)

    measures: list[Measure] = []
    try:
        if only is not Only.LOCOMO:
            traces = taubench(data, half)[:limit]
            name = f"tau-bench, {half.value}"
            measures.append(lambda database: measure_agents(database, name, traces, sizes, report))
        if only is not Only.TAUBENCH:
            talks = locomo(data, half)[:limit]
            title = f"LoCoMo, {half.value}"
            measures.append(
                lambda database: measure_dialogues(database, title, talks, sizes, report)
            )
        measured = asyncio.run(_measured(measures))
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None
    except (WorkerError, DurableContextError) as error:
        progress.print(str(error), markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    if json:
        typer.echo(as_json(measured, half.value))
    else:
        show(measured, Console(highlight=False))


async def _measured(measures: list[Measure]) -> list[Cached]:
    measured: list[Cached] = []
    with Termination(), tempfile.TemporaryDirectory(prefix="durable-context-bench-") as folder:
        async with benchmark_database(Path(folder)) as database:
            for measure in measures:
                begun = time.perf_counter()
                measured.append(await measure(database))
                measured[-1].seconds = time.perf_counter() - begun
    return measured


if __name__ == "__main__":
    typer.run(main)
